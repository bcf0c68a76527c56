package openai

import (
	"context"
	"net/http"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// embed makes a call for embeddings: the vectors keep their bytes where they are encoded as
// the client asked.
func (a *Adapter) embed(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	return a.plain(ctx, call, "embeddings", parseEmbeddings)
}

// parseEmbeddings reads a whole answer; body is the caller's again afterwards.
func parseEmbeddings(call *provider.Call, body []byte, openEnded bool) (*provider.Answer, *llm.Error) {
	if problem := wire.NotJSON(body); problem != "" {
		return nil, provider.Unanswerable(http.StatusOK, problem)
	}
	var o object
	var c jsonx.Cursor
	var edits jsonx.Edits
	vectors := 0
	c.ResetLoose(body)
	o.read(&c, "data", func() {
		c.EachItem(func(int) {
			vectors++
			recode(&c, &edits, call.Facts.Base64)
		})
	})
	if err := c.End(); err != nil {
		return nil, wire.BadAnswer(err, openEnded)
	}
	if o.isError {
		if e := llm.InBand(body); e != nil {
			return nil, e
		}
	}
	if vectors == 0 {
		return nil, provider.Unanswerable(http.StatusOK, "an answer without embeddings")
	}
	result := provider.Result{Status: http.StatusOK, Output: true}
	result.Usage.Source = attempt.UsageMissing
	if o.usage >= 0 && o.usageKind != jsonx.Null {
		f := o.fields[o.usage]
		result.Usage = llm.OpenAIUsage(body[f.Value:f.End], call.ContextLimit)
	}
	o.edit(&edits, body, jsonx.AppendString(nil, call.Model), false)
	out := wire.GetBuffer()
	*out = edits.Apply(*out, body)
	return provider.NewAnswer(*out, o.end-1+edits.Growth(), true, result, func() { wire.PutBuffer(out) }), nil
}
