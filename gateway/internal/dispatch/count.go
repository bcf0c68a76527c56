package dispatch

import (
	"turnout/gateway/catalog"
	"turnout/gateway/llm"
)

// imageTokens is what an image is counted as (routing.md 1).
const imageTokens = 560

// Count estimates the input tokens of a Messages request, as routing does: no provider is asked, so
// nothing is recorded.
func (d *Dispatcher) Count(token string, body []byte) (int64, *llm.APIError) {
	view, access, failed := d.Access(token)
	if failed != nil {
		return 0, failed
	}
	f, failed := llm.ParseCount(body)
	if failed != nil {
		return 0, failed
	}
	p := access.Project
	if _, unknown := view.Catalog.Resolve(f.Model, catalog.Query{
		Organization: p.Organization.ID, Publisher: p.ModelIDs == "publisher", Now: d.metrics.Now(),
	}); unknown != nil {
		return 0, &llm.APIError{Status: unknown.Status, Type: "invalid_request_error", Code: unknown.Code, Param: unknown.Param, Message: unknown.Message}
	}
	return f.PromptTokens() + imageTokens*int64(f.Images), nil
}
