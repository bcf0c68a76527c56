package fold

import "turnout/schemas/snapshot"

// single is the sums of one attempt in a fifth of their size.
type single struct {
	input, cached, output int64
	throughputUS, ttftUS  int64
	flags                 flags
}

type flags uint16

const (
	clientError flags = 1 << iota
	failed
	rateLimited
	geoBlocked
	timedOut
	canceled
	hasThroughput
	hasTTFT
)

// pack shortens what Classify returns; sums gives it back.
func pack(s snapshot.Sums) single {
	p := single{input: s.InputTokens, cached: s.CachedTokens, output: s.OutputTokens, throughputUS: s.ThroughputUS, ttftUS: s.TTFTUS}
	mark := func(flag flags, n int64) {
		if n > 0 {
			p.flags |= flag
		}
	}
	mark(clientError, s.ClientErrors)
	mark(failed, s.Errors)
	mark(rateLimited, s.RateLimited)
	mark(geoBlocked, s.GeoBlocked)
	mark(timedOut, s.Timeouts)
	mark(canceled, s.Canceled)
	mark(hasThroughput, s.ThroughputUS)
	mark(hasTTFT, s.TTFTCount)
	return p
}

func (p single) sums() snapshot.Sums {
	one := func(flag flags) int64 {
		if p.flags&flag != 0 {
			return 1
		}
		return 0
	}
	s := snapshot.Sums{
		Attempts: 1, ClientErrors: one(clientError), Errors: one(failed), RateLimited: one(rateLimited), GeoBlocked: one(geoBlocked), Timeouts: one(timedOut), Canceled: one(canceled),
		InputTokens: p.input, CachedTokens: p.cached, OutputTokens: p.output,
	}
	if p.flags&hasThroughput != 0 {
		s.ThroughputTokens, s.ThroughputUS = p.output, p.throughputUS
	}
	if p.flags&hasTTFT != 0 {
		s.TTFTCount, s.TTFTUS = 1, p.ttftUS
		s.TTFTHistogram[bucket(p.ttftUS)] = 1
	}
	return s
}
