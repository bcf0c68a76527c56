package dispatch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"turnout/gateway/internal/emit"
	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

// lost ends a request that nobody could serve.
func (r *run) lost(ctx context.Context, last *llm.Error) {
	if last == nil {
		if ctx.Err() == nil {
			r.refuse(r.overtaken())
			return
		}
		last = &llm.Error{Class: attempt.Canceled}
	}
	if errors.Is(context.Cause(ctx), ErrShutdown) {
		r.reply.Fail(&llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "not_ready",
			Message: "the gateway is shutting down; send the request again"}, r.extra())
		return
	}
	if last.Class == attempt.Canceled {
		return // nobody is there to be told
	}
	if last.Class == attempt.ContentFilter {
		r.filtered(last)
		return
	}
	if r.in.Request.BoundTo != "" && last.Retryable() {
		r.reply.Fail(r.unbound(), r.extra())
		return
	}
	if wait, all := r.allLimited(); all && !r.begun {
		r.reply.Fail(&llm.APIError{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Code: "all_providers_limited", RetryAfter: wait,
			Message: "every provider that could serve the request limits our rate; try again after the time named in Retry-After"}, r.extra())
		return
	}
	final := last.Final()
	if r.begun && final.Status == http.StatusBadGateway {
		final.Message = "the provider's stream broke before the answer was complete; what came is not the whole answer, send the request again"
	}
	r.reply.Fail(final, r.extra())
}

// overtaken is why no call could be made although somebody had been chosen: the last usable key was
// taken for a probe, or went bad, since. The same question asked now gives the reason.
func (r *run) overtaken() *llm.APIError {
	r.prepare(r.plan, r.d.metrics.Now())
	if routing.Decide(&r.in, &r.first); r.first.Selected < 0 {
		return r.nobody(&r.first)
	}
	return &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "providers_unavailable", RetryAfter: time.Second,
		Message: "the provider is being probed after a failure and nobody else can serve the request; try again in a moment"}
}

// allLimited says whether the last failure of every candidate tried was a 429, and the smallest wait
// that one of them named.
func (r *run) allLimited() (time.Duration, bool) {
	var least time.Duration
	for i := range r.calls {
		c := &r.calls[i]
		final := true
		for _, later := range r.calls[i+1:] {
			final = final && later.leg != c.leg
		}
		if final && !c.limited {
			return 0, false
		}
		if final && c.wait > 0 && (least == 0 || c.wait < least) {
			least = c.wait
		}
	}
	if least == 0 {
		least = state.DefaultCooldownBase
	}
	return least, len(r.calls) > 0
}

// spoolError is what the client is told when the log cannot take the start of a call.
func spoolError(err error) *llm.APIError {
	e := &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "event_spool_error",
		Message: "the gateway cannot write its event log, so it makes no call; the host must look at the disk"}
	if errors.Is(err, emit.ErrSpoolFull) {
		e.Code = "event_spool_full"
		e.Message = "the gateway's event log is full because Kafka takes no events, so it makes no call; try again later"
	}
	return e
}
