// Package openai speaks OpenAI's chat completions with an upstream: to OpenAI itself and to everything
// compatible. Answers keep their bytes but for what api.md names.
package openai

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/bridge"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// Adapter is a provider.Adapter.
type Adapter struct {
	client   wire.Client
	host     wire.Host
	protocol bridge.Protocol // for what is not passed through
}

const chatPath = "chat/completions"

// New returns an adapter; agent is the User-Agent upstreams see ("turnout/1.2.3"), now the clock that
// HTTP dates in Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	return NewAt(wire.Host{}, wire.Client{Transports: transports, Agent: agent, Now: now})
}

// NewAt returns an adapter for where OpenAI's protocol is spoken as host says, its calls made by client.
func NewAt(host wire.Host, client wire.Client) *Adapter {
	a := &Adapter{client: client, host: host}
	a.protocol = bridge.Protocol{
		Path:   func(call *provider.Call) string { return a.host.At(call, chatPath) },
		Header: a.header,
		Append: chat.Append,
		Sending: func(call *provider.Call, s *llm.Sending) {
			s.OpenAI = strings.Contains(call.Target.BaseURL, "//api.openai.com/")
			if a.host.Sending != nil {
				a.host.Sending(call, s)
			}
		},
		Response: chat.DecodeResponse,
		Decoder:  func(limit int64) bridge.Decoder { return chat.NewDecoder(limit) },
	}
	return a
}

var _ provider.Adapter = (*Adapter)(nil)

// Offer implements provider.Adapter. Most of what is compatible speaks chat and embeddings.
func (a *Adapter) Offer(endpoint string, t *provider.Target) provider.Offer {
	switch endpoint {
	case attempt.EndpointChat:
		return provider.Offer{OK: t.Endpoints == nil || slices.Contains(t.Endpoints, endpoint)}
	case attempt.EndpointEmbeddings:
		return provider.Offer{OK: t.Endpoints == nil || slices.Contains(t.Endpoints, endpoint)}
	case attempt.EndpointResponses:
		if speaksResponses(t) {
			return provider.Offer{OK: true}
		}
	}
	if bridge.Serves(endpoint) && a.Offer(attempt.EndpointChat, t).OK {
		return provider.Offer{OK: true, Translated: true, Lacks: []string{resource.CapWebSearch}}
	}
	return provider.Offer{}
}

// speaksResponses: few besides OpenAI do, so it has to be said.
func speaksResponses(t *provider.Target) bool {
	return slices.Contains(t.Endpoints, attempt.EndpointResponses)
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	switch call.Endpoint {
	case attempt.EndpointChat:
		return a.plain(ctx, call, chatPath, parseAnswer)
	case attempt.EndpointEmbeddings:
		return a.embed(ctx, call)
	case attempt.EndpointResponses:
		if speaksResponses(call.Target) {
			return a.plain(ctx, call, responsesPath, parseResponse)
		}
	}
	return bridge.Complete(ctx, &a.client, call, &a.protocol)
}

// plain makes a call that is passed through; parse reads its answer.
func (a *Adapter) plain(ctx context.Context, call *provider.Call, path string, parse func(*provider.Call, []byte, bool) (*provider.Answer, *llm.Error)) (*provider.Answer, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	defer w.Stop()
	defer func() { call.Timing.Total = w.Elapsed() }()
	resp, failure := a.client.Post(w, call, a.host.At(call, path), a.header(call), appendBody(nil, call), provider.LimitFirstByte, call.Timeouts.FirstByte)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	buf, openEnded, failure := wire.Answer(w, resp)
	if failure != nil {
		return nil, failure
	}
	answer, failure := parse(call, *buf, openEnded)
	wire.PutBuffer(buf)
	return answer, wire.Scrub(failure, call)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	switch {
	case call.Endpoint == attempt.EndpointResponses && speaksResponses(call.Target):
		w := provider.NewWatch(ctx, call.Timeouts.Total)
		return a.client.Open(w, call, a.host.At(call, responsesPath), a.header(call), appendBody(nil, call), &responseRelay{call: call})
	case call.Endpoint != attempt.EndpointChat:
		return bridge.Stream(ctx, &a.client, call, &a.protocol)
	}
	s := newStream(call)
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	if failure := a.client.Begin(&s.Flow, w, call, a.host.At(call, chatPath), a.header(call), appendBody(nil, call)); failure != nil {
		return nil, failure
	}
	if failure := s.Peek(s.step); failure != nil {
		s.Close()
		return nil, failure
	}
	return s, nil
}

// header makes the header of a call; what is Anthropic's stays with the client.
func (a *Adapter) header(call *provider.Call) http.Header {
	h := a.host.Header(call, a.client.Agent, "Authorization", "Bearer "+call.Secret)
	delete(h, "Anthropic-Beta")
	delete(h, "Anthropic-Version")
	return h
}
