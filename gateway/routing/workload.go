package routing

import "turnout/schemas/resource"

// Workload is the kind of traffic of an organization, from which the token mix is guessed until
// it has been observed.
type Workload uint8

// The workloads.
const (
	WorkloadAPI Workload = iota
	WorkloadCoding
	WorkloadChat
)

// Observed is the usage of a project and model in the last 24 hours, without response-cache hits.
type Observed struct {
	Successes         int64
	InputTokens       int64
	CachedInputTokens int64
	OutputTokens      int64
}

// What makes an observation count.
const (
	minSuccesses   = 20
	minInputTokens = 20_000
)

// Enough says whether the observation is large enough to replace the defaults.
func (o Observed) Enough() bool {
	return o.Successes >= minSuccesses && o.InputTokens >= minInputTokens &&
		o.CachedInputTokens >= 0 && o.OutputTokens >= 0
}

// HitRate is the share of the input that was read from a cache, 0 to 1.
func (o Observed) HitRate() float64 {
	return float64(min(o.CachedInputTokens, o.InputTokens)) / float64(o.InputTokens)
}

// OutputRatio is output tokens per input token.
func (o Observed) OutputRatio() float64 {
	return float64(o.OutputTokens) / float64(o.InputTokens)
}

// mix is the token mix that prices are blended with.
type mix struct {
	hitRate, outputRatio float64
	// fixedHitRate: the project set it, so a provider's own observation does not count.
	fixedHitRate bool
}

// defaults returns cache-hit rate and output ratio of a workload.
func (w Workload) defaults() (hitRate, outputRatio float64) {
	switch w {
	case WorkloadCoding:
		return 0.9, 0.02
	case WorkloadChat:
		return 0.5, 0.1
	default:
		return 0.1, 0.2
	}
}

// resolveMix takes each figure from the first that knows it: project, observation, workload.
func resolveMix(t *resource.Thresholds, w Workload, o Observed) mix {
	var m mix
	m.hitRate, m.outputRatio = w.defaults()
	if o.Enough() {
		m.hitRate, m.outputRatio = o.HitRate(), o.OutputRatio()
	}
	if t.CacheHitRate != nil {
		m.hitRate, m.fixedHitRate = *t.CacheHitRate, true
	}
	if t.CacheOutputRatio != nil {
		m.outputRatio = *t.CacheOutputRatio
	}
	return m
}
