// Package gemini speaks Google's generateContent with an upstream. No surface of ours is Google's, so
// every request is translated.
package gemini

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/bridge"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/gemini"
	"turnout/schemas/resource"
)

// Adapter is a provider.Adapter.
type Adapter struct {
	client   wire.Client
	host     wire.Host
	protocol bridge.Protocol
	// early: for models before the third generation, which give JSON or call tools, not both.
	early bool
}

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that HTTP dates in
// Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	return NewAt(wire.Host{}, wire.Client{Transports: transports, Agent: agent, Now: now})
}

// NewAt returns an adapter for where generateContent is spoken as host says, its calls made by client.
func NewAt(host wire.Host, client wire.Client) *Adapter {
	if client.Events == nil {
		client.Events = func(r io.Reader) wire.Events { return sse.NewReaderUpTo(r, largestEvent) }
	}
	a := &Adapter{client: client, host: host}
	a.protocol = bridge.Protocol{
		Path:     func(call *provider.Call) string { return a.host.At(call, path(call)) },
		Header:   a.header,
		Append:   gemini.Append,
		Sending:  host.Sending,
		Response: gemini.DecodeResponse,
		Decoder:  func(limit int64) bridge.Decoder { return gemini.NewDecoder(limit) },
	}
	return a
}

var (
	_ provider.Adapter   = (*Adapter)(nil)
	_ provider.Publisher = (*Adapter)(nil)
)

// Of implements provider.Publisher.
func (a *Adapter) Of(upstreamModel string) provider.Adapter {
	early := strings.Contains(upstreamModel, "gemini-1") || strings.Contains(upstreamModel, "gemini-2")
	if early == a.early {
		return a
	}
	of := *a
	of.early = early
	return &of
}

// largestEvent is more than other protocols' streams have: an image that a model makes is one event.
const largestEvent = 16 << 20

func path(call *provider.Call) string {
	model := call.UpstreamModel
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	if call.Facts.Stream {
		return model + ":streamGenerateContent?alt=sse"
	}
	return model + ":generateContent"
}

// Offer implements provider.Adapter.
func (a *Adapter) Offer(endpoint string, _ *provider.Target) provider.Offer {
	if !bridge.Serves(endpoint) {
		return provider.Offer{}
	}
	o := provider.Offer{OK: true, Translated: true, Lacks: []string{resource.CapN, resource.CapWebSearch}}
	if a.early {
		o.LacksWithTools = []string{resource.CapJSONObject, resource.CapJSONSchema}
	}
	return o
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	return bridge.Complete(ctx, &a.client, call, &a.protocol)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	return bridge.Stream(ctx, &a.client, call, &a.protocol)
}

func (a *Adapter) header(call *provider.Call) http.Header {
	h := a.host.Header(call, a.client.Agent, "X-Goog-Api-Key", call.Secret)
	for _, name := range [...]string{"Openai-Beta", "Anthropic-Beta", "Anthropic-Version"} {
		delete(h, name)
	}
	return h
}
