// Package openai speaks OpenAI's chat completions with an upstream: to OpenAI itself and to everything
// compatible. Answers keep their bytes but for what api.md names.
package openai

import (
	"context"
	"io"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
)

// Adapter is a provider.Adapter.
type Adapter struct{ client wire.Client }

// New returns an adapter; agent is the User-Agent upstreams see ("turnout/1.2.3"), now the clock that
// HTTP dates in Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	return &Adapter{client: wire.Client{Transports: transports, Agent: agent, Now: now}}
}

var _ provider.Adapter = (*Adapter)(nil)

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	defer w.Stop()
	defer func() { call.Timing.Total = w.Elapsed() }()
	resp, failure := a.send(w, call, provider.LimitFirstByte, call.Timeouts.FirstByte)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	buf, openEnded, failure := wire.Answer(w, resp)
	if failure != nil {
		return nil, failure
	}
	answer, failure := parseAnswer(call, *buf, openEnded)
	wire.PutBuffer(buf)
	return answer, wire.Scrub(failure, call.Secret)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	resp, failure := a.send(w, call, provider.LimitFirstOutput, call.Timeouts.FirstOutput)
	if failure == nil {
		var body io.Reader
		if body, failure = wire.Decoded(resp); failure == nil {
			s := newStream(call, w, resp, body)
			if failure = s.peek(); failure == nil {
				return s, nil
			}
			s.Close()
			call.Timing.Total = w.Elapsed()
			return nil, wire.Scrub(failure, call.Secret)
		}
		resp.Body.Close()
	}
	call.Timing.Total = w.Elapsed()
	w.Stop()
	return nil, failure
}

func (a *Adapter) send(w *provider.Watch, call *provider.Call, limit provider.Limit, at time.Duration) (*http.Response, *llm.Error) {
	return a.client.Post(w, call, "chat/completions", header(call, a.client.Agent), appendBody(nil, call), limit, at)
}

func header(call *provider.Call, agent string) http.Header {
	return wire.Header(call, agent, "Authorization", "Bearer "+call.Secret)
}
