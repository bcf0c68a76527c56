package provider

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// Limit names a time limit of an attempt.
type Limit string

// The limits.
const (
	LimitConnect     Limit = "no connection within"
	LimitFirstByte   Limit = "no answer within"
	LimitFirstOutput Limit = "no output within"
	LimitIdle        Limit = "nothing more for"
	LimitTotal       Limit = "not finished within"
	LimitTail        Limit = "no end marker within" // after a whole answer: no failure
)

// expired is the cause with which a limit that ran out cancels the call.
type expired struct {
	limit Limit
	after time.Duration
}

func (e *expired) Error() string { return string(e.limit) + " " + e.after.String() }

// Watch is the clock of one attempt: one context that ends with the client's, or when the limit under
// way or the total runs out. One timer serves all limits. It is safe for concurrent use.
type Watch struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	detach func() bool
	start  time.Time
	total  time.Duration

	mu    sync.Mutex
	timer *time.Timer
	armed time.Duration // when the timer fires, since start; 0: it does not
	due   time.Duration // when the limit under way ends, since start; 0: never
	limit Limit
	after time.Duration
}

// NewWatch starts the clock of an attempt. Stop must be called.
func NewWatch(parent context.Context, total time.Duration) *Watch {
	w := &Watch{parent: parent, start: time.Now(), total: total}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.detach = context.AfterFunc(parent, func() { w.cancel(parent.Err()) })
	w.Pause()
	return w
}

// Context ends when the attempt must.
func (w *Watch) Context() context.Context { return w.ctx }

// Elapsed is the time since the attempt began.
func (w *Watch) Elapsed() time.Duration { return time.Since(w.start) }

// Until puts a limit that ends at a time since the attempt's start in the place of the one under way.
// Zero means none. The total goes on in any case.
func (w *Watch) Until(limit Limit, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.due, w.after = limit, at, at
	if w.total > 0 && (at <= 0 || w.total < at) {
		w.limit, w.due, w.after = LimitTotal, w.total, w.total
	}
	if w.due > 0 && (w.armed == 0 || w.due < w.armed) {
		w.arm()
	}
}

// For puts a limit from now on in the place of the one under way; after is what its error names.
func (w *Watch) For(limit Limit, left, after time.Duration) {
	if left <= 0 {
		left = 1
	}
	w.Until(limit, w.Elapsed()+left)
	w.mu.Lock()
	if w.limit == limit {
		w.after = after
	}
	w.mu.Unlock()
}

// Pause leaves only the total.
func (w *Watch) Pause() { w.Until(LimitTotal, w.total) }

// arm sets the timer to the limit's end; the lock is held.
func (w *Watch) arm() {
	w.armed = w.due
	wait := w.due - w.Elapsed()
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, w.fire)
		return
	}
	w.timer.Reset(wait)
}

func (w *Watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = 0
	switch {
	case w.due <= 0:
	case w.Elapsed() >= w.due:
		w.cancel(&expired{w.limit, w.after})
	default:
		w.arm() // the limit was put off since
	}
}

// Detach lets the call outlive the client's context, for what is left to read of a finished answer.
func (w *Watch) Detach() { w.detach() }

// Stop ends the context and the clock.
func (w *Watch) Stop() {
	w.detach()
	w.mu.Lock()
	w.due = 0
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.cancel(context.Canceled)
}

// Error classifies a transport error by what ended the call: the client, a limit of ours, or else the
// network.
func (w *Watch) Error(err error) *llm.Error {
	cause := context.Cause(w.ctx)
	if cause == nil && w.parent.Err() != nil {
		cause = w.parent.Err()
	}
	var limit *expired
	switch {
	case errors.As(cause, &limit) && limit.limit == LimitConnect:
		return &llm.Error{Class: attempt.NetworkError, Message: limit.Error()}
	case errors.As(cause, &limit):
		return &llm.Error{Class: attempt.UpstreamTimeout, Message: limit.Error()}
	case errors.Is(cause, context.DeadlineExceeded):
		return &llm.Error{Class: attempt.UpstreamTimeout, Message: "the request's time is over"}
	case cause != nil:
		return &llm.Error{Class: attempt.Canceled, Message: "the client went away"}
	}
	return &llm.Error{Class: attempt.NetworkError, Message: "the connection failed", Cause: err}
}

// Unanswerable is the failure of what came with a success status and cannot be an answer.
func Unanswerable(status int, message string) *llm.Error {
	if status == 0 {
		status = http.StatusOK
	}
	return &llm.Error{Class: attempt.UpstreamError, Status: status, Message: message}
}

// Cut is the failure of an answer that broke off.
func Cut(message string, err error) *llm.Error {
	return &llm.Error{Class: attempt.NetworkError, Status: http.StatusOK, Message: message, Cause: err}
}
