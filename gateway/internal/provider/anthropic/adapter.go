// Package anthropic speaks Anthropic's Messages with an upstream. Clients of the same surface have
// their bytes passed through but for what api.md names; others are translated.
package anthropic

import (
	"context"
	"net/http"
	"slices"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/bridge"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/messages"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// version is the protocol's version that is asked for where the client asks for none.
const version = "2023-06-01"

// Adapter is a provider.Adapter.
type Adapter struct {
	client   wire.Client
	host     wire.Host
	protocol bridge.Protocol
}

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that HTTP dates in
// Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	return NewAt(wire.Host{}, wire.Client{Transports: transports, Agent: agent, Now: now})
}

// NewAt returns an adapter for where Messages is spoken as host says, its calls made by client.
func NewAt(host wire.Host, client wire.Client) *Adapter {
	a := &Adapter{client: client, host: host}
	a.protocol = bridge.Protocol{
		Path:   func(call *provider.Call) string { return a.host.At(call, path) },
		Header: a.header,
		Append: func(dst []byte, r *llm.Request, s llm.Sending) ([]byte, []string) {
			body, stripped := messages.Append(dst, r, s)
			return a.host.Sent(body), stripped
		},
		Response: messages.DecodeResponse,
		Decoder:  func(limit int64) bridge.Decoder { return messages.NewDecoder(limit) },
	}
	return a
}

var _ provider.Adapter = (*Adapter)(nil)

const path = "messages"

// Offer implements provider.Adapter.
func (a *Adapter) Offer(endpoint string, t *provider.Target) provider.Offer {
	switch {
	case endpoint == attempt.EndpointMessages && (t.Endpoints == nil || slices.Contains(t.Endpoints, endpoint)):
		return provider.Offer{OK: true}
	case bridge.Serves(endpoint):
		return provider.Offer{OK: true, Translated: true, Lacks: []string{
			resource.CapAudio, resource.CapJSONObject, resource.CapN, resource.CapWebSearch,
		}}
	}
	return provider.Offer{}
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	if call.Endpoint != attempt.EndpointMessages {
		return bridge.Complete(ctx, &a.client, call, &a.protocol)
	}
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	defer w.Stop()
	defer func() { call.Timing.Total = w.Elapsed() }()
	resp, failure := a.client.Post(w, call, a.host.At(call, path), a.header(call), a.host.Sent(appendBody(nil, call)), provider.LimitFirstByte, call.Timeouts.FirstByte)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	buf, openEnded, failure := wire.Answer(w, resp)
	if failure != nil {
		return nil, failure
	}
	defer wire.PutBuffer(buf)
	answer, failure := parseAnswer(call, *buf, openEnded)
	return answer, wire.Scrub(failure, call)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	if call.Endpoint != attempt.EndpointMessages {
		return bridge.Stream(ctx, &a.client, call, &a.protocol)
	}
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	return a.client.Open(w, call, a.host.At(call, path), a.header(call), a.host.Sent(appendBody(nil, call)), newRelay(call))
}

func (a *Adapter) header(call *provider.Call) http.Header {
	h := a.host.Header(call, a.client.Agent, "X-Api-Key", call.Secret)
	delete(h, "Openai-Beta")
	if len(h["Anthropic-Version"]) == 0 {
		h["Anthropic-Version"] = []string{version}
	}
	return h
}
