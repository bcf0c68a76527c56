// Package vertex speaks with models on Google's Vertex AI: Anthropic's in Messages, others in
// generateContent, with a service account's tokens. A base URL ends in a project and a place, such as
// https://aiplatform.googleapis.com/v1/projects/my-project/locations/{region}.
package vertex

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/anthropic"
	"turnout/gateway/internal/provider/gemini"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Adapter is a provider.Adapter, a provider.Placer and a provider.Publisher.
type Adapter struct {
	tokens            *tokens
	anthropic, google provider.Adapter
}

var (
	_ provider.Adapter   = (*Adapter)(nil)
	_ provider.Placer    = (*Adapter)(nil)
	_ provider.Publisher = (*Adapter)(nil)
)

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that tokens expire by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	a := &Adapter{tokens: newTokens(now)}
	client := wire.Client{Transports: transports, Agent: agent, Now: now, Sign: a.sign}
	// The credential is put in by sign.
	none := func(string) (string, string) { return "Authorization", "" }
	a.anthropic = anthropic.NewAt(wire.Host{Path: claude, Credential: none, Body: claudeBody}, client)
	a.google = gemini.NewAt(wire.Host{Path: google, Credential: none}, client)
	return a
}

// Of implements provider.Publisher.
func (a *Adapter) Of(upstreamModel string) provider.Adapter {
	if strings.HasPrefix(upstreamModel, "claude-") || strings.HasPrefix(upstreamModel, "publishers/anthropic/") {
		return a.anthropic
	}
	return a.google
}

// Offer implements provider.Adapter, for a model that nobody names: Google's.
func (a *Adapter) Offer(endpoint string, t *provider.Target) provider.Offer {
	return a.google.Offer(endpoint, t)
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	return a.Of(call.UpstreamModel).Complete(ctx, call)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	return a.Of(call.UpstreamModel).Stream(ctx, call)
}

// PlaceURL implements provider.Placer. Places but global have a host of their own.
func (a *Adapter) PlaceURL(base, region string) string {
	if region == "" {
		region = "global"
	}
	if region != "global" {
		base = strings.Replace(base, "//aiplatform.googleapis.com/", "//"+region+"-aiplatform.googleapis.com/", 1)
	}
	return strings.ReplaceAll(base, "{region}", region)
}

func claude(call *provider.Call, _ string) string {
	method := ":rawPredict"
	if call.Facts.Stream {
		method = ":streamRawPredict"
	}
	return published("anthropic", call.UpstreamModel) + method
}

// google makes of models/M:method, or M:method where M has a path, what Vertex calls it.
func google(_ *provider.Call, path string) string {
	return published("google", strings.TrimPrefix(path, "models/"))
}

func published(by, model string) string {
	if strings.HasPrefix(model, "publishers/") {
		return model
	}
	return "publishers/" + by + "/models/" + model
}

// claudeVersion is what Vertex wants in the body in the place of the header Anthropic-Version.
const claudeVersion = `"anthropic_version":"vertex-2023-10-16"`

// claudeBody puts the version in the place of the model, which stands in the path. Every other byte
// stays; a body that brings a version of its own keeps that.
func claudeBody(body []byte) []byte {
	var c jsonx.Cursor
	c.ResetLoose(body)
	var fields []jsonx.Field
	model, versioned := -1, false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "model":
			model = len(fields)
		case "anthropic_version":
			versioned = true
		}
		at := jsonx.Field{Key: f.KeyStart, Value: c.Pos()}
		c.Skip()
		at.End = c.Pos()
		fields = append(fields, at)
	}
	if model < 0 {
		return body
	}
	var edits jsonx.Edits
	if versioned {
		edits.DeleteFields(fields, func(i int) bool { return i == model })
	} else {
		edits.Replace(fields[model].Key, fields[model].End, []byte(claudeVersion))
	}
	return edits.Apply(nil, body)
}

func (a *Adapter) sign(w *provider.Watch, call *provider.Call, _ *url.URL, header http.Header, _ []byte) *llm.Error {
	token, failure := a.tokens.get(w, call.Secret, call.Target.AllowPrivate)
	if failure != nil {
		return failure
	}
	header["Authorization"] = []string{"Bearer " + token}
	delete(header, "Anthropic-Version")
	return nil
}
