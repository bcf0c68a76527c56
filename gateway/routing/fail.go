package routing

import (
	"slices"
	"strings"
)

// last returns the code of the filter that dropped the last candidate the request asked for;
// Eligible if there was none at all.
func (d *Decision) last(in *Input) Code {
	last := Eligible
	for i := range in.Candidates {
		if sideOf(&in.Request, &in.Candidates[i]) == asked {
			last = max(last, d.codes[i])
		}
	}
	return last
}

// fail says why nobody is left.
func (d *Decision) fail(in *Input) {
	r, last := &in.Request, d.last(in)
	e := Error{Code: ErrNoProvider}
	switch last {
	case CodeRateLimited:
		e.Code = ErrRateLimited
		e.RetryAfterMS = d.soonest(in, last, func(c *Candidate) int64 { return c.RateLimitResetsMS })
	case CodeCooldown:
		e.Code = ErrAllLimited
		e.RetryAfterMS = d.soonest(in, last, func(c *Candidate) int64 { return c.CooldownEndsMS })
	case CodeNotAllowed:
		e.Code = ErrNotAllowed
	case CodeCompliance:
		e.Code, e.Unmet = ErrRegionUnavailable, d.unmet(in)
	case CodeSafeguards:
		e.Code = ErrSafeguards
	case CodeNoProviderKey:
		if d.every(in, func(i int, c *Candidate) bool {
			return sideOf(r, c) != asked || d.codes[i] != last || c.KeysRemoved&in.Mode.keys() != 0
		}) {
			e.Code = ErrProvidersUnavailable
		}
	case CodeDeactivated:
		if d.every(in, func(_ int, c *Candidate) bool { return c.Deactivated }) {
			e.Code = ErrModelRetired
		}
	default:
	}
	if r.BoundTo != "" && (e.Code == ErrNoProvider || e.Code == ErrProvidersUnavailable) && last < CodeLockedRegion {
		e.Code = ErrReasoningProvider
	}
	e.Message = d.explain(in, e.Code)
	d.Error = e
}

// soonest is the smallest positive time of those that the filter dropped and that may serve once it
// has passed; 0 if none is known. A named provider's limits, not its cooldown, let others in.
func (d *Decision) soonest(in *Input, code Code, of func(*Candidate) int64) int64 {
	anybody := code == CodeRateLimited && reroutable(&in.Request)
	var soonest int64
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if d.codes[i] != code || !anybody && sideOf(&in.Request, c) != asked {
			continue
		}
		if ms := of(c); ms > 0 && (soonest == 0 || ms < soonest) {
			soonest = ms
		}
	}
	return soonest
}

func (d *Decision) every(in *Input, holds func(i int, c *Candidate) bool) bool {
	for i := range in.Candidates {
		if !holds(i, &in.Candidates[i]) {
			return false
		}
	}
	return true
}

// unmet gathers the requirements that dropped candidates did not meet.
func (d *Decision) unmet(in *Input) []string {
	var unmet []string
	for i := range in.Candidates {
		if c := &in.Candidates[i]; d.codes[i] == CodeCompliance && sideOf(&in.Request, c) == asked {
			unmet = append(unmet, c.Unmet...)
		}
	}
	slices.Sort(unmet)
	return slices.Compact(unmet)
}

// headlines begin the messages of errors.
var headlines = map[string]string{
	ErrNoProvider:           "no provider can serve this request",
	ErrNotAllowed:           "this key may not use the model",
	ErrRegionUnavailable:    "no provider meets the data policy",
	ErrSafeguards:           "no provider offers the safeguards asked for",
	ErrRateLimited:          "the rate limit of every provider is reached",
	ErrAllLimited:           "every provider is rate limiting us",
	ErrProvidersUnavailable: "every key of the providers was refused",
	ErrModelRetired:         "the model is retired",
	ErrReasoningProvider:    "the reasoning replayed in this request can only be sent to its issuer, which is not available",
}

// shown bounds how many dropped candidates a message names.
const shown = 8

// explain writes the message: what happened, and who was dropped why.
func (d *Decision) explain(in *Input, code string) string {
	var b strings.Builder
	b.WriteString(headlines[code])
	if code == ErrReasoningProvider {
		b.WriteString(": " + in.Request.BoundTo)
	}
	named := 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if d.codes[i] == Eligible || sideOf(&in.Request, c) != asked {
			continue
		}
		if named == shown {
			b.WriteString(", and others")
			break
		}
		b.WriteString(map[bool]string{true: ": ", false: ", "}[named == 0])
		b.WriteString(c.Provider)
		if c.Region != "" {
			b.WriteString(":" + c.Region)
		}
		b.WriteString(" (" + d.codes[i].String() + ")")
		named++
	}
	return b.String()
}
