package fold

import (
	"math/bits"

	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
)

// Classify says what an attempt adds to which provider's metrics. ok is false if it adds nothing:
// made with a tenant's own key at a shared provider, interrupted, canceled before any output, or of
// an outcome that a later version defined. A custom provider feeds metrics of its organization,
// whoever's key was used. Whether another attempt of the request succeeded plays no part.
func Classify(e *attempt.Event) (snapshot.Key, snapshot.Sums, bool) {
	if e.CredentialSource == attempt.BYOK && !e.CustomProvider {
		return snapshot.Key{}, snapshot.Sums{}, false
	}
	s := snapshot.Sums{Attempts: 1}
	switch e.Outcome {
	case attempt.Completed, attempt.ContentFilter:
	case attempt.GatewayError, attempt.UpstreamError, attempt.NetworkError:
		s.Errors = 1
	case attempt.UpstreamTimeout:
		s.Errors, s.Timeouts = 1, 1
	case attempt.ClientError:
		s.ClientErrors = 1
	case attempt.Canceled:
		if !hadOutput(e) {
			return snapshot.Key{}, snapshot.Sums{}, false
		}
		s.Canceled = 1
	default:
		return snapshot.Key{}, snapshot.Sums{}, false
	}
	if s.Errors == 1 && e.StatusCode == tooManyRequests {
		s.RateLimited = 1
	}
	if s.Errors == 1 && e.GeoBlocked {
		s.GeoBlocked = 1
	}
	s.InputTokens, s.CachedTokens, s.OutputTokens = e.InputTokens, e.CachedInputTokens, e.OutputTokens
	if e.OutputTokens > 0 && e.DurationUS > 0 {
		s.ThroughputTokens, s.ThroughputUS = e.OutputTokens, e.DurationUS
	}
	if e.Stream && e.TTFTUS != nil && *e.TTFTUS >= 0 {
		s.TTFTCount, s.TTFTUS = 1, *e.TTFTUS
		s.TTFTHistogram[bucket(*e.TTFTUS)] = 1
	}
	key := snapshot.Key{Provider: e.Provider, Model: e.Model, Region: e.Region, Class: snapshot.ClassText}
	if e.Endpoint == attempt.EndpointEmbeddings {
		key.Class = snapshot.ClassEmbedding
	}
	if e.CustomProvider {
		key.Organization = e.OrganizationID
	}
	return key, s, true
}

func hadOutput(e *attempt.Event) bool { return e.TTFTUS != nil || e.OutputTokens > 0 }

// bucket is the smallest i with us < 2^i * 16 ms, or the last one.
func bucket(us int64) int {
	return min(bits.Len64(uint64(us)/16000), snapshot.TTFTBuckets-1)
}

// UsageKey is what usage is kept per, beside the hour.
type UsageKey struct{ Organization, Project, Model, Provider string }

// Usage is a commutative monoid of what an hour of a project used.
type Usage struct {
	Attempts     int64
	Requests     int64 // attempts that were not followed by another
	Successes    int64
	InputTokens  int64 // all input, cached and written included
	CachedTokens int64
	CacheWrite   int64 // 5-minute and 1-hour writes
	OutputTokens int64
	CostNanoUSD  int64
}

// Add makes u the usage of both.
func (u *Usage) Add(o Usage) {
	u.Attempts += o.Attempts
	u.Requests += o.Requests
	u.Successes += o.Successes
	u.InputTokens += o.InputTokens
	u.CachedTokens += o.CachedTokens
	u.CacheWrite += o.CacheWrite
	u.OutputTokens += o.OutputTokens
	u.CostNanoUSD += o.CostNanoUSD
}

// ClassifyUsage says what an attempt adds to the usage of its project, platform and own keys alike.
func ClassifyUsage(e *attempt.Event) (UsageKey, Usage) {
	u := Usage{
		Attempts: 1, InputTokens: e.InputTokens, CachedTokens: e.CachedInputTokens,
		CacheWrite: e.CacheWriteTokens + e.CacheWrite1hTokens, OutputTokens: e.OutputTokens, CostNanoUSD: e.CostNanoUSD,
	}
	if !e.WillRetry {
		u.Requests = 1
	}
	if e.Outcome == attempt.Completed {
		u.Successes = 1
	}
	return UsageKey{Organization: e.OrganizationID, Project: e.ProjectID, Model: e.Model, Provider: e.Provider}, u
}

const tooManyRequests = 429 // net/http has more in it than a pure package needs
