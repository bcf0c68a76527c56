// Package vertex speaks with models on Google's Vertex AI: Anthropic's in Messages, Google's in
// generateContent, open ones in OpenAI's chat completions, with a service account's tokens. A base URL
// ends in a project and a place, such as
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
	"turnout/gateway/internal/provider/openai"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Adapter is a provider.Adapter, a provider.Placer and a provider.Publisher.
type Adapter struct {
	tokens                  *tokens
	anthropic, google, open provider.Adapter
}

var (
	_ provider.Adapter   = (*Adapter)(nil)
	_ provider.Placer    = (*Adapter)(nil)
	_ provider.Publisher = (*Adapter)(nil)
)

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that tokens expire by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	a := &Adapter{tokens: &tokens{now: now, fetch: fetcher(transports, agent, now), held: map[held]*fetch{}}}
	client := wire.Client{Transports: transports, Agent: agent, Now: now, Sign: a.sign}
	// The credential is put in by sign.
	none := func(string) (string, string) { return "Authorization", "" }
	a.anthropic = anthropic.NewAt(wire.Host{Path: claude, Credential: none, Body: claudeBody}, client)
	a.google = gemini.NewAt(wire.Host{Path: google, Credential: none, Sending: sending}, client)
	a.open = openai.NewAt(wire.Host{Path: open, Credential: none}, client)
	return a
}

// Of implements provider.Publisher. Names are MODEL, PUBLISHER/MODEL, publishers/PUBLISHER/models/MODEL,
// or endpoints/ID for a tuned model of Google's. What Vertex serves of others as open models has a name
// with its publisher before a slash, Google's own open ones end in -maas.
func (a *Adapter) Of(upstreamModel string) provider.Adapter {
	publisher, name, named := strings.Cut(strings.TrimPrefix(upstreamModel, "publishers/"), "/")
	switch {
	case publisher == "anthropic" && named, !named && strings.HasPrefix(publisher, "claude-"):
		return a.anthropic
	case !named, publisher == "endpoints", strings.HasPrefix(upstreamModel, "publishers/"),
		publisher == "google" && !strings.HasSuffix(name, "-maas"):
		return a.google
	}
	return a.open
}

// Offer implements provider.Adapter, for a model that nobody names: Google's.
func (a *Adapter) Offer(endpoint string, t *provider.Target) provider.Offer {
	return a.google.Offer(endpoint, t)
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	answer, failure := a.Of(call.UpstreamModel).Complete(ctx, call)
	return answer, a.judged(call, failure)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	stream, failure := a.Of(call.UpstreamModel).Stream(ctx, call)
	return stream, a.judged(call, failure)
}

// judged: that a token was refused which had been taken before does not make the account invalid.
func (a *Adapter) judged(call *provider.Call, failure *llm.Error) *llm.Error {
	if failure != nil && failure.InvalidKey && call.Token != "" && a.tokens.refused(call) {
		failure.InvalidKey = false
	}
	return failure
}

// PlaceURL implements provider.Placer. A base URL that says its place itself stays as it is.
func (a *Adapter) PlaceURL(base, region string) string {
	if !strings.Contains(base, "{region}") {
		return base
	}
	if region == "" {
		region = "global"
	}
	for _, catalogued := range [...]string{"//aiplatform.googleapis.com/", "//{region}-aiplatform.googleapis.com/"} {
		base = strings.Replace(base, catalogued, "//"+host(region)+"/", 1)
	}
	return strings.ReplaceAll(base, "{region}", region)
}

// host is the one that serves a place.
func host(region string) string {
	switch region {
	case "global":
		return "aiplatform.googleapis.com"
	case "us", "eu": // of several regions
		return "aiplatform." + region + ".rep.googleapis.com"
	}
	return region + "-aiplatform.googleapis.com"
}

// open is where all open models are served: which of them stands in the body.
func open(_ *provider.Call, path string) string { return "endpoints/openapi/" + path }

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

// sending: Gemini before 3 on Vertex knows no ids of calls and refuses a request that has some; from 3 on
// it wants them back.
func sending(call *provider.Call, s *llm.Sending) {
	s.NoCallIDs = strings.Contains(call.UpstreamModel, "gemini-1") || strings.Contains(call.UpstreamModel, "gemini-2")
}

func published(by, model string) string {
	if strings.HasPrefix(model, "publishers/") || strings.HasPrefix(model, "endpoints/") {
		return model
	}
	return "publishers/" + by + "/models/" + strings.TrimPrefix(model, by+"/")
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
	token, fetched, failure := a.tokens.get(w, call)
	if failure != nil {
		return failure
	}
	if fetched {
		call.Token = token
	}
	header["Authorization"] = []string{"Bearer " + token}
	delete(header, "Anthropic-Version")
	delete(header, "Openai-Beta")
	return nil
}
