package dispatch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
)

const (
	// patience is the longest wait before the same key is tried again.
	patience  = 10 * time.Second
	firstWait = time.Second
	laterWait = 2 * time.Second
)

// Errors that end what still runs. They are causes of a canceled context.
var (
	// ErrShutdown: the gateway stops.
	ErrShutdown = errors.New("the gateway is shutting down")
	errGone     = errors.New("the client is gone")
)

// call is one attempt that was made, as metadata shows it.
type call struct {
	leg, key  int
	status    int
	errorType string
	succeeded bool
	limited   bool          // a 429
	wait      time.Duration // what it asked for
}

// step is what to do next: which key of which candidate, and by which decision.
type step struct {
	leg, key   int
	kind       routing.Credentials
	reason     routing.Reason
	propensity float64
	strip      bool          // tool_choice is sent as auto
	forced     bool          // although the key cools down
	wait       time.Duration // before it
}

func stepOf(d *routing.Decision) step {
	return step{leg: d.Selected, kind: d.Credential, reason: d.Reason, propensity: d.Propensity, strip: d.ToolChoiceStripped}
}

// with is the same candidate with another key, at once.
func (s step) with(key int) step {
	s.key, s.forced, s.wait = key, false, 0
	return s
}

// attempts makes attempts until one serves the request or none is left to make.
func (r *run) attempts(ctx context.Context) {
	at, ok := r.start()
	retries, larger, anew := 0, false, false
	var last *llm.Error
	for {
		if !ok && len(r.calls) == 0 && !anew {
			anew = true
			at, ok = r.anew()
		}
		if !ok {
			break
		}
		if at.wait > 0 && !r.sleep(ctx, at) {
			break
		}
		use, begun := r.begin(at)
		if !begun { // somebody else's request is probing the key, or it went bad a moment ago
			at, ok = r.pass(at)
			continue
		}
		failed, done := r.attempt(ctx, at, use, func(e *llm.Error) bool {
			ok = false
			if ctx.Err() == nil && time.Now().Before(r.deadline) {
				at, ok = r.after(at, e, &retries, &larger)
			}
			return ok
		})
		if done {
			return
		}
		last = failed
	}
	r.lost(ctx, last)
}

// start is the first step: the candidate decided on and its best key.
func (r *run) start() (step, bool) {
	at := stepOf(&r.first)
	if to, ok := r.enter(at); ok {
		return to, true
	}
	return r.other(at, 0)
}

// anew decides a second time, where the first choice cannot be called after all, nothing was called yet
// and no further choice may follow the first: a session's, or that of the only provider there is.
func (r *run) anew() (step, bool) {
	r.retry.Tried, r.redecided = r.retry.Tried[:0], false
	r.prepare(r.plan, r.d.metrics.Now())
	if routing.Decide(&r.in, &r.first); r.first.Selected < 0 {
		return step{}, false
	}
	r.remember()
	return r.enter(stepOf(&r.first))
}

// enter picks a key of the candidate that was decided on. Where the decision saw all of them cool down
// it made the candidate the last resort, and the one whose cooldown from errors ends first is taken.
func (r *run) enter(at step) (step, bool) {
	if key := r.pick(at.leg, at.kind); key >= 0 {
		return at.with(key), true
	}
	if r.in.Candidates[at.leg].Cooling == routing.NotCooling {
		return step{}, false // it went bad since: others may be well
	}
	if key := r.soonest(at.leg, at.kind); key >= 0 {
		to := at.with(key)
		to.forced = true
		return to, true
	}
	return step{}, false
}

// begin takes the key. It fails where the key may not be used after all.
func (r *run) begin(at step) (state.Use, bool) {
	return r.plan.legs[at.leg].health[at.key].Begin(r.d.metrics.Now(), at.forced)
}

// pass goes on without an attempt: the key became unusable since it was picked.
func (r *run) pass(at step) (step, bool) {
	if key := r.pick(at.leg, at.kind); key >= 0 {
		return at.with(key), true
	}
	return r.other(at, 0)
}

// pick finds a usable key of a leg that this request has not tried there; -1 if there is none.
func (r *run) pick(leg int, kind routing.Credentials) int {
	l := &r.plan.legs[leg]
	tier := r.in.Request.ServiceTier
	if len(l.keys) == 1 {
		if l.keys[0].kind&kind == 0 || r.tried(leg, 0) || !l.health[0].Phase(r.d.metrics.Now()).Usable() || !sells(&l.keys[0], tier) {
			return -1
		}
		return 0
	}
	return state.Pick(l.health, r.d.metrics.Now(), r.d.turn.Add(1), func(i int) bool {
		return l.keys[i].kind&kind == 0 || r.tried(leg, i) || !sells(&l.keys[i], tier)
	})
}

// soonest finds the key of a leg whose cooldown from errors ends first; -1 if there is none.
func (r *run) soonest(leg int, kind routing.Credentials) int {
	l, best := &r.plan.legs[leg], -1
	var ends time.Time
	for i := range l.keys {
		if l.keys[i].kind&kind == 0 || !sells(&l.keys[i], r.in.Request.ServiceTier) {
			continue
		}
		if r.tried(leg, i) {
			continue
		}
		c := l.health[i].Cooldown()
		if c.Cause != state.CauseErrors {
			continue
		}
		if best < 0 || c.Until.Before(ends) {
			best, ends = i, c.Until
		}
	}
	return best
}

func (r *run) tried(leg, key int) bool {
	for i := range r.calls {
		if r.calls[i].leg == leg && r.calls[i].key == key {
			return true
		}
	}
	return false
}

// after decides what follows a failed attempt (routing.md 6): (a) another key of the same provider
// and region, (b) another candidate, (c) the same key after a wait. The attempt is in r.calls already.
func (r *run) after(at step, e *llm.Error, retries *int, larger *bool) (step, bool) {
	if e.ContextLength {
		limit := r.in.Candidates[at.leg].Context
		if *larger || limit <= 0 {
			return step{}, false
		}
		*larger = true
		to, ok := r.other(at, limit)
		if ok && r.session != "" {
			r.movePin(to.leg)
		}
		return to, ok
	}
	if !e.Retryable() {
		return step{}, false
	}
	if key := r.pick(at.leg, at.kind); key >= 0 {
		return at.with(key), true
	}
	most := r.in.Config.Retry.MaxRetries
	if *retries < most {
		if to, ok := r.other(at, 0); ok {
			*retries++
			return to, true
		}
	}
	// In hybrid mode the host's keys serve when attempts on the tenant's have failed, also where the
	// request may not leave its provider.
	if r.plan.mode == routing.ModeHybrid && at.kind == routing.BYOK {
		if key := r.pick(at.leg, routing.Platform); key >= 0 {
			to := at.with(key)
			to.kind = routing.Platform
			return to, true
		}
	}
	if *retries >= most {
		return step{}, false
	}
	wait, ok := r.again(at, e, *retries)
	if !ok {
		return step{}, false
	}
	*retries++
	to := at.with(at.key)
	to.forced, to.wait = true, wait
	return to, true
}

// other asks for another decision among the candidates not tried; larger is the context that was too
// small, 0 if that is not why. Candidates whose keys turn out to be unusable are passed over.
func (r *run) other(from step, larger int64) (step, bool) {
	now := r.d.metrics.Now()
	for n := range r.in.Candidates {
		r.plan.legs[n].unwell(&r.in.Candidates[n], now, r.in.Request.ServiceTier)
	}
	for len(r.retry.Tried) < len(r.in.Candidates) {
		r.retry.Tried = append(r.retry.Tried, 0)
	}
	r.retry.Tried[from.leg] |= from.kind
	r.retry.LargerContext = larger
	r.redecided = len(r.calls) == 0
	for range 2 * len(r.in.Candidates) {
		if !routing.Next(&r.in, &r.retry, &r.next) {
			return step{}, false
		}
		at := stepOf(&r.next)
		if to, ok := r.enter(at); ok {
			return to, true
		}
		r.retry.Tried[at.leg] |= at.kind
	}
	return step{}, false
}

// again is (c): whether the same key is tried once more, and after how long.
func (r *run) again(at step, e *llm.Error, retries int) (time.Duration, bool) {
	if e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests {
		return 0, false
	}
	sole := r.sole() && len(r.plan.legs[at.leg].keys) == 1
	if r.session == "" && !sole {
		return 0, false
	}
	if e.RetryAfter > patience {
		return 0, false
	}
	wait := firstWait
	if retries > 0 {
		wait = laterWait
	}
	if e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	health, now := r.plan.legs[at.leg].health[at.key], r.d.metrics.Now()
	switch phase := health.Phase(now); {
	case phase == state.Removed:
		return 0, false
	case phase == state.Ready || phase == state.Due:
	case health.Cooldown().Cause == state.CauseRateLimit:
		left := health.Cooldown().Until.Sub(now)
		if left > patience {
			return 0, false
		}
		wait = max(wait, left)
	case !sole:
		return 0, false // a session waits for no provider that cools down from errors
	}
	return wait, true
}

// sole says whether the request had but one candidate when it began.
func (r *run) sole() bool {
	n := 0
	for i := range r.first.Scores {
		if c := &r.in.Candidates[r.first.Scores[i].Candidate]; r.resolved.Provider == "" || c.Provider == r.resolved.Provider {
			n++
		}
	}
	return n == 1
}

// sleep waits before the same key is tried again. It returns false if the request ended meanwhile, or
// if the candidate was switched off or its key taken away.
func (r *run) sleep(ctx context.Context, at step) bool {
	began := time.Now()
	if !began.Add(at.wait).Before(r.deadline) {
		return false
	}
	t := time.NewTimer(at.wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	}
	r.upUS += time.Since(began).Microseconds()
	view := r.d.tenants.Current()
	if view == r.view {
		return true
	}
	old := &r.plan.legs[at.leg]
	model, ok := view.Catalog.Model(r.plan.model.ID)
	if !ok {
		return false
	}
	if access, ok := view.Access(r.req.Token); !ok || access.Key.Revoked {
		return false
	}
	for i := range model.Candidates {
		c := &model.Candidates[i]
		if c.Provider.ID != old.candidate.Provider.ID || c.Region != old.candidate.Region {
			continue
		}
		if !c.Live(r.d.metrics.Now()) || c.Priority <= 0 {
			return false
		}
		secret := old.keys[at.key].credential.Secret
		for _, k := range append(view.Platform(c.Provider.ID), view.BYOK(r.access.Organization.ID, c.Provider.ID)...) {
			if k.Secret == secret {
				return true
			}
		}
	}
	return false
}

func (r *run) movePin(leg int) {
	c := &r.in.Candidates[leg]
	place := state.Place{Provider: c.Provider, Region: c.Region}
	if r.resolved.Auto {
		place.Model = c.Model
	}
	r.d.state.Pin(r.pinKey, place, r.in.Config.Session.TTL)
}
