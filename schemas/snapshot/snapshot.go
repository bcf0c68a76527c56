// Package snapshot is what the processor publishes and gateways poll: the sums of the attempts of
// the last window, per provider, model, region and endpoint class, each tier apart, so that a
// gateway can weigh them itself (pipeline.md 12).
package snapshot

import "time"

// Endpoint classes.
const (
	ClassText      = "text"
	ClassEmbedding = "embedding"
)

// Key is what metrics are kept per. Region "" is a provider without regions.
type Key struct {
	Provider, Model, Region, Class string
	// Organization is set for a custom provider, whose metrics its organization alone sees.
	Organization string
}

// Sums is a commutative monoid of what one or many slots counted. Only platform credentials feed
// it (custom providers: their own organization's). Durations are microseconds.
type Sums struct {
	Attempts         int64 // all but interrupted and canceled before output
	ClientErrors     int64
	Errors           int64 // gateway + upstream errors, network errors and timeouts among them
	RateLimited      int64
	GeoBlocked       int64
	Timeouts         int64
	Canceled         int64 // after output
	InputTokens      int64
	CachedTokens     int64
	OutputTokens     int64
	ThroughputTokens int64 // output tokens of attempts that produced output ...
	ThroughputUS     int64 // ... and their durations
	TTFTCount        int64
	TTFTUS           int64
	TTFTHistogram    [TTFTBuckets]int64
}

// Add makes s the sums of what both counted. It is commutative and associative, with the zero Sums
// as identity.
func (s *Sums) Add(o Sums) {
	s.Attempts += o.Attempts
	s.ClientErrors += o.ClientErrors
	s.Errors += o.Errors
	s.RateLimited += o.RateLimited
	s.GeoBlocked += o.GeoBlocked
	s.Timeouts += o.Timeouts
	s.Canceled += o.Canceled
	s.InputTokens += o.InputTokens
	s.CachedTokens += o.CachedTokens
	s.OutputTokens += o.OutputTokens
	s.ThroughputTokens += o.ThroughputTokens
	s.ThroughputUS += o.ThroughputUS
	s.TTFTCount += o.TTFTCount
	s.TTFTUS += o.TTFTUS
	for i, n := range o.TTFTHistogram {
		s.TTFTHistogram[i] += n
	}
}

// Negated is what takes s away again when it is added.
func (s Sums) Negated() Sums {
	var out Sums
	to := out.counters()
	for i, v := range s.counters() {
		*to[i] = -*v
	}
	return out
}

// Counted is N of routing.md 2: attempts that say something about the provider.
func (s Sums) Counted() int64 { return s.Attempts - s.ClientErrors }

// TTFTBuckets: bucket i counts times to first token below 2^i * 16 ms, the last one the rest.
const TTFTBuckets = 12

// Tiers of age of a History; Window is their unweighted sum.
const (
	Tier1 = iota
	Tier2
	Tier3
	TierCount
)

// Row is one key of one profile.
type Row struct {
	Key
	Tier [TierCount]Sums
}

// Profile names a distinct History; "" is the default one.
type Profile struct {
	ID                                        string
	WindowMinutes, Tier1Minutes, Tier2Minutes int
}

// Head makes a snapshot visible: rows are written first, the head last. Heads are ordered by
// (Generation, sum of Watermarks, AsOf).
type Head struct {
	ID         string
	Generation int64
	AsOf       time.Time
	Watermarks map[int]int64 // partition -> offset of the last event in it
	Rows       int64
	Checksum   uint64
	Profiles   []Profile
}

// Set is a complete snapshot: immutable once built.
type Set struct {
	Head Head
	Rows map[string][]Row // by profile id
}

// WatermarkSum orders heads of one generation.
func (h Head) WatermarkSum() int64 {
	var n int64
	for _, w := range h.Watermarks {
		n += w
	}
	return n
}
