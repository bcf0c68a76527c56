package dispatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/bridge"
	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

// Defaults of an attempt's limits (routing.md 6).
const (
	defaultConnect     = 10 * time.Second
	defaultFirstByte   = 300 * time.Second
	defaultFirstOutput = 60 * time.Second
	reasoningOutput    = 180 * time.Second
	perPromptTokens    = 5000 // one second more for so many
	defaultIdle        = 120 * time.Second
	defaultPlain       = 10 * time.Minute
	defaultStream      = 20 * time.Minute
	probeOutput        = 30 * time.Second
)

// attempt makes one call: recorded before it leaves and when it has ended. done means that the client
// has its answer, or an error that ends the request. Otherwise the attempt failed, and decide, which is
// asked before the end is recorded, has said whether the request goes on.
func (r *run) attempt(ctx context.Context, at step, use state.Use, decide func(*llm.Error) bool) (failed *llm.Error, done bool) {
	l := &r.plan.legs[at.leg]
	if failed := r.unsayable(l); failed != nil {
		use.End(r.d.metrics.Now(), state.Neutral, 0)
		if len(r.calls) == 0 {
			r.refuse(failed)
		} else {
			r.reply.Fail(failed, r.extra())
		}
		return nil, true
	}
	began := time.Now()
	e := r.startEvent(at, use, began)
	ticket, err := r.d.events.Start(e)
	if err != nil {
		use.End(r.d.metrics.Now(), state.Neutral, 0)
		r.reply.Fail(spoolError(err), r.extra())
		return nil, true
	}
	// Whatever happens in between, also a panic: a call that was begun has an end.
	ended := false
	finish := func() {
		ended = true
		// Before the log has it: its place in Kafka may be known before Finish returns.
		r.d.metrics.Observe(e)
		if r.d.cfg.Observe != nil {
			r.d.cfg.Observe(e)
		}
		r.d.events.Finish(ticket, e)
	}
	defer func() {
		if !ended {
			use.End(r.d.metrics.Now(), state.Neutral, 0)
			// A mistake of ours ends the attempt: nobody knows how the call ended, and it is not the
			// provider's fault.
			r.endEvent(began, nil, provider.Result{}, &llm.Error{Class: attempt.Interrupted})
			finish()
		}
	}()
	r.calls = append(r.calls, call{leg: at.leg, key: at.key})
	mine := &r.calls[len(r.calls)-1]

	c := r.newCall(at, use, e)
	adapter := r.d.adapters[l.candidate.Provider.Protocol]
	if r.facts.Stream {
		var s provider.Stream
		if s, failed = adapter.Stream(ctx, c); failed == nil {
			defer s.Close()
			return r.relay(ctx, s, c, at, use, began, mine, finish)
		}
	} else {
		var a *provider.Answer
		if a, failed = adapter.Complete(ctx, c); failed == nil {
			defer a.Release()
			use.End(r.d.metrics.Now(), state.Success, 0)
			r.endEvent(began, c, a.Result, nil)
			mine.note(http.StatusOK, nil)
			finish()
			r.reply.Route(l.candidate.Provider.ID, l.candidate.Model.ID, len(r.calls))
			meta := r.spliced(a.OwnMetadata)
			_ = r.reply.Plain(a.Body[:a.SpliceAt], meta, a.Body[a.SpliceAt:])
			return nil, true
		}
	}
	use.End(r.d.metrics.Now(), verdict(failed), failed.RetryAfter)
	r.d.warn(l, at.key, failed)
	r.endEvent(began, c, provider.Result{}, failed)
	mine.note(failed.Status, failed)
	e.WillRetry = decide(failed)
	finish()
	r.reply.Route(l.candidate.Provider.ID, l.candidate.Model.ID, len(r.calls))
	return failed, false
}

// warn names a credential that cannot be used, and why. What an upstream said of it stays out: nobody
// knows what is in it.
func (d *Dispatcher) warn(l *leg, key int, e *llm.Error) {
	if !e.InvalidKey && !e.Unsent {
		return
	}
	why := "the provider refuses it"
	if e.Unsent {
		why = e.Message
	}
	d.cfg.Log.Warn("a provider's credential cannot be used", "provider", l.candidate.Provider.ID, "region", l.candidate.Region, "key", l.keys[key].hash,
		"status", e.Status, "why", why, "removed_until_it_changes", e.InvalidKey)
}

// unsayable looks once at a body that is to be translated: what is wrong with it is the client's to
// mend, and no call is begun for it.
func (r *run) unsayable(l *leg) *llm.APIError {
	if !l.translated || r.sayable {
		return nil
	}
	r.sayable = true
	if e := bridge.Check(r.req.Endpoint, r.req.Body); e != nil {
		return e.Final()
	}
	return nil
}

// relay sends a stream on, event by event. Its end, from the finish reason on, is held back until the
// attempt is recorded: what a client saw finish is never lost.
func (r *run) relay(ctx context.Context, s provider.Stream, c *provider.Call, at step, use state.Use, began time.Time, mine *call, finish func()) (*llm.Error, bool) {
	l := &r.plan.legs[at.leg]
	r.reply.Route(l.candidate.Provider.ID, l.candidate.Model.ID, len(r.calls))
	splice, own, holding := -1, false, false
	for {
		chunk, err := s.Next()
		whole := errors.Is(err, io.EOF)
		if err != nil && !whole {
			return r.broken(ctx, s, c, use, began, mine, finish, streamError(err))
		}
		if chunk.Finish || chunk.Done || chunk.SpliceAt > 0 || holding {
			if chunk.SpliceAt > 0 {
				splice, own = len(r.held)+chunk.SpliceAt, chunk.OwnMetadata
			}
			r.held, holding = append(r.held, chunk.Data...), true
		} else if err == nil {
			if gone := r.reply.Event(chunk.More, chunk.Data); gone != nil {
				s.Close()
				return r.broken(ctx, s, c, use, began, mine, finish, &llm.Error{Class: attempt.Canceled, Cause: errGone})
			}
		}
		if whole || chunk.Done {
			break
		}
	}
	use.End(r.d.metrics.Now(), state.Success, 0)
	r.endEvent(began, c, s.Result(), nil)
	mine.note(http.StatusOK, nil)
	finish()
	if splice < 0 {
		_ = r.reply.Event(false, r.held)
		return nil, true
	}
	_ = r.reply.Event(false, r.held[:splice], r.spliced(own), r.held[splice:])
	return nil, true
}

// broken ends a stream that has begun and cannot end well: the client gets an error event and nothing
// that looks like an end.
func (r *run) broken(ctx context.Context, s provider.Stream, c *provider.Call, use state.Use, began time.Time, mine *call, finish func(), e *llm.Error) (*llm.Error, bool) {
	if ctx.Err() != nil && e.Class != attempt.UpstreamTimeout {
		e.Class = attempt.Canceled
	}
	use.End(r.d.metrics.Now(), verdict(e), e.RetryAfter)
	r.endEvent(began, c, s.Result(), e)
	mine.note(e.Status, e)
	finish()
	if errors.Is(e.Cause, errGone) {
		return nil, true
	}
	r.begun = true
	r.lost(ctx, e)
	return nil, true
}

func streamError(err error) *llm.Error {
	if e := (*llm.Error)(nil); errors.As(err, &e) {
		return e
	}
	return &llm.Error{Class: attempt.NetworkError, Message: "the stream broke", Cause: err}
}

// note completes a call with its result.
func (c *call) note(status int, e *llm.Error) {
	c.status, c.errorType, c.succeeded = status, "none", e == nil
	if e != nil {
		c.errorType, c.wait = e.ErrorType(), e.RetryAfter
		c.limited = e.Class == attempt.UpstreamError && e.Status == http.StatusTooManyRequests
	}
}

// verdict is what a failure says about the key.
func verdict(e *llm.Error) state.Result {
	switch {
	case e.InvalidKey:
		return state.InvalidKey
	case e.Class == attempt.UpstreamError && e.Status == http.StatusTooManyRequests:
		return state.RateLimited
	case e.Class == attempt.ContentFilter:
		return state.Success
	case e.Retryable():
		return state.Failure
	}
	return state.Neutral
}

func (r *run) newCall(at step, use state.Use, e *attempt.Event) *provider.Call {
	l := &r.plan.legs[at.leg]
	c := &provider.Call{
		Endpoint: r.req.Endpoint, Facts: r.facts, Body: r.req.Body,
		Model: l.candidate.Model.ID, UpstreamModel: l.candidate.Upstream, ContextLimit: l.candidate.Context, MaxOutput: l.candidate.MaxOutput,
		StripToolChoice: at.strip, Target: l.target, Secret: l.keys[at.key].credential.Secret.Reveal(),
		Header: r.forwarded(l), Timeouts: r.timeouts(l, use.Probe),
	}
	if l.target.Trace {
		c.Traceparent = e.Traceparent
	}
	return c
}

// forwarded are the client's headers that the upstream may see; mostly there are none.
func (r *run) forwarded(l *leg) http.Header {
	var h http.Header
	add := func(name string) {
		if v := r.req.Header.Values(name); len(v) > 0 {
			if h == nil {
				h = http.Header{}
			}
			h[http.CanonicalHeaderKey(name)] = v
		}
	}
	if r.req.Endpoint == attempt.EndpointMessages {
		add("Anthropic-Beta")
		add("Anthropic-Version")
	} else {
		add("OpenAI-Beta")
	}
	for _, name := range l.candidate.Provider.ForwardHeaders {
		add(name)
	}
	return h
}

// timeouts merges what provider and mapping say with the defaults; the project can only lower them.
func (r *run) timeouts(l *leg, probe bool) provider.Timeouts {
	own, p := &l.timeouts, &r.access.Project.Routing.Timeouts
	extra := time.Duration(r.in.Request.PromptTokens/perPromptTokens) * time.Second
	output := defaultFirstOutput
	reasons := l.reasons && !r.facts.NoReasoning && r.in.Request.Effort != routing.EffortNone
	if reasons {
		output = reasoningOutput
	}
	t := provider.Timeouts{
		Connect:     or(own.Connect, defaultConnect),
		FirstByte:   lower(or(own.FirstByte, defaultFirstByte), p.FirstByte),
		FirstOutput: lower(or(own.FirstOutput, output)+extra, p.FirstOutput),
		Idle:        lower(or(own.Idle, defaultIdle), p.Idle),
		Total:       lower(or(own.Plain, defaultPlain), p.Plain),
	}
	if r.facts.Stream {
		t.Total = lower(or(own.Stream, defaultStream), p.Streaming)
		if probe && !reasons {
			t.FirstOutput = min(t.FirstOutput, probeOutput)
		}
	}
	t.Total = min(t.Total, max(time.Until(r.deadline), time.Millisecond))
	return t
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func lower(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}
