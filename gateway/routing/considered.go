package routing

import (
	"cmp"
	"slices"

	"turnout/schemas/attempt"
)

// Why the keys of a candidate could not be used, as it is stored.
const (
	causeErrors     = "errors"
	causeRateLimit  = "rate_limit"
	causeInvalidKey = "invalid_key"
)

// maxConsidered bounds how many candidates an event holds.
const maxConsidered = 32

// Considered appends what an event keeps of a decision: every candidate with the inputs it was
// scored by or the code it was dropped with, in candidate order. Of more than 32 it keeps those that
// set a minimum or maximum and the best scores, then the dropped ones.
func (d *Decision) Considered(in *Input, to []attempt.Considered) []attempt.Considered {
	keep := d.kept(in)
	for i := range in.Candidates {
		if keep != nil && !keep[i] {
			continue
		}
		to = append(to, d.considered(in, i))
	}
	return to
}

func (d *Decision) considered(in *Input, i int) attempt.Considered {
	c := &in.Candidates[i]
	out := attempt.Considered{Provider: c.Provider, Region: c.Region, ExcludedCode: d.codes[i].String()}
	switch {
	case d.codes[i] == CodeNoProviderKey && c.KeysRemoved&in.Mode.keys() != 0 && c.Credentials&in.Mode.keys() == 0:
		out.CooldownCause = causeInvalidKey
	case c.Cooling == CoolingErrors:
		out.CooldownCause, out.CooldownEndsMS = causeErrors, c.CooldownEndsMS
	case c.Cooling == CoolingRateLimit:
		out.CooldownCause, out.CooldownEndsMS = causeRateLimit, c.CooldownEndsMS
	}
	s := d.scoreOf(i)
	switch {
	case s != nil:
		score := s.Score
		out.Score = &score
	case d.codes[i] == CodeLowUptime:
		// It was scored before it gave way: without its inputs that could not be decided again.
		s = &Scored{Candidate: i, LostTo: -1}
		d.weigh(in, s)
	default:
		return out
	}
	out.Price, out.Priority, out.CacheSupported = s.Price, s.Priority, s.CacheSupport
	out.Uptime = stored(s, KnownUptime, s.Uptime)
	out.Throughput = stored(s, KnownThroughput, s.Throughput)
	out.Latency = stored(s, KnownLatency, s.Latency)
	if s.LostTo >= 0 {
		out.LostToRegion = in.Candidates[s.LostTo].Region
	}
	return out
}

func stored(s *Scored, which Known, value float64) *float64 {
	if s.Known&which == 0 {
		return nil
	}
	return &value
}

// scoreOf finds the score of a candidate; nil if it was excluded.
func (d *Decision) scoreOf(candidate int) *Scored {
	i, ok := slices.BinarySearchFunc(d.Scores, candidate, func(s Scored, c int) int { return cmp.Compare(s.Candidate, c) })
	if !ok {
		return nil
	}
	return &d.Scores[i]
}

// kept marks the candidates to keep; nil keeps all.
func (d *Decision) kept(in *Input) []bool {
	if len(in.Candidates) <= maxConsidered {
		return nil
	}
	keep := make([]bool, len(in.Candidates))
	left := maxConsidered
	mark := func(candidate int) {
		if left > 0 && !keep[candidate] {
			keep[candidate] = true
			left--
		}
	}
	if d.Selected >= 0 {
		mark(d.Selected)
	}
	for _, measure := range []func(a, b *Scored) bool{
		func(a, b *Scored) bool { return a.Price < b.Price },
		func(a, b *Scored) bool { return a.Uptime > b.Uptime },
		func(a, b *Scored) bool { return a.Throughput > b.Throughput },
		func(a, b *Scored) bool { return a.Latency < b.Latency },
	} {
		if best := d.most(measure); best >= 0 {
			mark(best)
		}
	}
	order := make([]int, len(d.Scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.Scores[a].compared, d.Scores[b].compared) })
	for _, i := range order {
		mark(d.Scores[i].Candidate)
	}
	for _, x := range d.Excluded {
		mark(x.Candidate)
	}
	return keep
}

// most returns the candidate that leads in the last round by a measure; -1 if there is none.
func (d *Decision) most(leads func(a, b *Scored) bool) int {
	best := -1
	for i := range d.Scores {
		if d.Scores[i].LostTo < 0 && (best < 0 || leads(&d.Scores[i], &d.Scores[best])) {
			best = i
		}
	}
	if best < 0 {
		return -1
	}
	return d.Scores[best].Candidate
}

// Recorded appends the candidates of a recorded decision, so that Decide on the same request and
// configuration comes to the same choice, or the same error if there was none. It holds for decisions
// that kept all their candidates. What filtered them is not recorded, its verdict is: the request's
// needs, region, service tier and answer length are to be left out.
//
// originalUptime is the decision's, nil if it had none: who gave way for that uptime is chosen first
// again. The mode is to be ModePlatform, since whose keys serve is part of the verdict.
func Recorded(considered []attempt.Considered, originalUptime *float64, to []Candidate) []Candidate {
	for i := range considered {
		was := &considered[i]
		c := Candidate{
			Provider: was.Provider, Region: was.Region, Model: was.Model,
			RankingPrice: was.Price, CacheSupported: was.CacheSupported, Priority: was.Priority,
			Capabilities: EveryCapability, Credentials: Platform | BYOK, Dropped: ParseCode(was.ExcludedCode),
		}
		if c.Dropped == CodeLowUptime && originalUptime != nil && was.Uptime != nil && *was.Uptime <= *originalUptime {
			c.Dropped = Eligible
		}
		c.Deactivated = c.Dropped == CodeDeactivated
		if c.Dropped == CodeCooldown {
			c.CooldownEndsMS = was.CooldownEndsMS
		}
		if was.CooldownCause == causeInvalidKey {
			c.KeysRemoved = Platform | BYOK
		}
		restore(&c.Metrics, KnownUptime, &c.Metrics.Uptime, was.Uptime)
		restore(&c.Metrics, KnownThroughput, &c.Metrics.Throughput, was.Throughput)
		restore(&c.Metrics, KnownLatency, &c.Metrics.Latency, was.Latency)
		to = append(to, c)
	}
	return to
}

func restore(m *Metrics, which Known, to *float64, value *float64) {
	if value != nil {
		*to = *value
		m.Known |= which
	}
}
