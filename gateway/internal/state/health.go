package state

import (
	"math/bits"
	"time"
)

// Defaults and bounds of cooldowns (routing.md 6).
const (
	DefaultCooldownBase = 5 * time.Second
	DefaultCooldownMax  = 15 * time.Second
	maxRetryAfter       = 60 * time.Second
	windowSize          = 20 // attempts looked back on
	rowWithMajority     = 3  // errors in a row that cool, if they are most of the window too
	rowAlone            = 5  // errors in a row that cool whatever was before
)

// Cause is why a key cools down.
type Cause string

// The causes. InvalidKey never ends: the key is out until it changes.
const (
	CauseErrors     Cause = "errors"
	CauseRateLimit  Cause = "rate_limit"
	CauseInvalidKey Cause = "invalid_key"
)

// Result is what an attempt says about the key it used.
type Result uint8

// The results. Neutral says nothing: a client's mistake, a client that left.
const (
	Neutral Result = iota
	Success
	Failure
	RateLimited
	InvalidKey // handled by Keys: the credential is out in every region
)

// Phase is what a key may be used for.
type Phase uint8

// The phases. A key that is due is usable by exactly one request, its probe.
const (
	Ready Phase = iota
	Due         // the cooldown is over and nobody has probed yet
	Cooling
	Probing // cooling for everybody but the probe that is under way
	Removed // the credential is invalid
)

// Usable reports whether a request may take a key in this phase.
func (p Phase) Usable() bool { return p == Ready || p == Due }

// Health is the state machine of one key in one region. It reads no clock and takes no lock: a pure
// function of the calls made on it. The zero value with bounds set is a healthy key.
type Health struct {
	Base, Max time.Duration // of a cooldown; zero: the defaults

	window  uint32 // the last attempts, newest in bit 0; a set bit failed
	seen    int    // how many of its bits count
	row     int    // failures since the last success
	cooled  bool   // a cooldown was imposed and no attempt has succeeded since
	until   time.Time
	last    time.Duration // length of the cooldown in force, which a failed probe doubles
	cause   Cause
	probing bool
}

// Phase returns what the key may be used for at now.
func (h *Health) Phase(now time.Time) Phase {
	switch {
	case !h.cooled:
		return Ready
	case h.probing:
		return Probing
	case now.Before(h.until):
		return Cooling
	}
	return Due
}

// Cooldown returns what holds the key back and until when; zero values if nothing does.
func (h *Health) Cooldown() (Cause, time.Time) {
	if !h.cooled {
		return "", time.Time{}
	}
	return h.cause, h.until
}

// Shaky reports failures since the last success: a key that rotation takes later than others.
func (h *Health) Shaky() bool { return h.row > 0 }

// Begin marks an attempt as begun and reports whether it is the probe of a key that was due.
func (h *Health) Begin(now time.Time) (probe bool) {
	if h.Phase(now) != Due {
		return false
	}
	h.probing = true
	return true
}

// End takes in the result of an attempt. retryAfter is what a 429 asked for, 0 if it named nothing.
// probe: Begin said so; forced: it was made although the key was cooling. End reports whether a
// cooldown was imposed, which other nodes should hear of.
func (h *Health) End(now time.Time, r Result, retryAfter time.Duration, probe, forced bool) (changed bool) {
	if probe {
		h.probing = false
	}
	switch r {
	case Success:
		h.note(false)
		h.row = 0
		// A call made after the trouble began proves that it is over; a slow answer to a request from
		// before the cooldown proves nothing.
		if probe || forced {
			h.clear()
		}
	case Failure:
		h.note(true)
		h.row++
		if probe {
			h.cool(now, CauseErrors, h.doubled())
			return true
		}
		if !h.cooled && h.failing() {
			h.cool(now, CauseErrors, h.base())
			return true
		}
	case RateLimited:
		wait := min(retryAfter, maxRetryAfter)
		if wait <= 0 {
			wait = DefaultCooldownBase
			if probe {
				wait = max(wait, h.doubled())
			}
		}
		if h.cooled && !probe && !now.Add(wait).After(h.until) {
			return false // it cools for longer already
		}
		h.cool(now, CauseRateLimit, wait)
		return true
	}
	return false
}

// Impose takes over a cooldown that another node found, unless it is over. It takes the place of one
// that is known, also where it is shorter: the last one in the log counts on every node.
func (h *Health) Impose(now time.Time, cause Cause, until time.Time, length time.Duration) {
	if !until.After(now) {
		return
	}
	h.cooled, h.cause, h.until, h.last = true, cause, until, length
}

// Lift ends a cooldown without a probe.
func (h *Health) Lift() { h.clear() }

// Length is how long the cooldown in force was meant to be.
func (h *Health) Length() time.Duration { return h.last }

func (h *Health) note(failed bool) {
	h.window <<= 1
	if failed {
		h.window |= 1
	}
	h.window &= 1<<windowSize - 1
	h.seen = min(h.seen+1, windowSize)
}

func (h *Health) failing() bool {
	if h.row >= rowAlone {
		return true
	}
	return h.row >= rowWithMajority && 2*bits.OnesCount32(h.window) > h.seen
}

func (h *Health) cool(now time.Time, cause Cause, length time.Duration) {
	h.cooled, h.cause, h.until, h.last = true, cause, now.Add(length), length
}

func (h *Health) clear() {
	h.cooled, h.cause, h.until, h.last = false, "", time.Time{}, 0
}

func (h *Health) doubled() time.Duration { return min(max(2*h.last, h.base()), h.bound()) }

func (h *Health) base() time.Duration {
	if h.Base > 0 {
		return h.Base
	}
	return DefaultCooldownBase
}

func (h *Health) bound() time.Duration {
	if h.Max > 0 {
		return max(h.Max, h.base())
	}
	return max(DefaultCooldownMax, h.base())
}
