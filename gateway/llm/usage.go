package llm

import "turnout/schemas/attempt"

// Usage is what an upstream said an attempt consumed, in tokens, in the buckets of the event: InputTokens
// holds all input (cached and written included), OutputTokens all output (reasoning included), whatever
// the protocol's own habit is.
type Usage struct {
	InputTokens        int64
	CachedInputTokens  int64
	CacheWriteTokens   int64 // 5-minute writes
	CacheWrite1hTokens int64
	OutputTokens       int64
	ReasoningTokens    int64
	ImageInputTokens   int64 // as far as the upstream tells: those that no cache held
	AudioInputTokens   int64 // likewise
	ImageOutputTokens  int64
	AudioOutputTokens  int64

	Source attempt.UsageSource // reported or missing; the zero value means missing
	Flag   string              // why something was refused, or what is odd; empty: nothing
}

// NoUsage is what is known before anything was reported.
func NoUsage() Usage { return Usage{Source: attempt.UsageMissing} }

// Reported says whether an upstream reported it.
func (u *Usage) Reported() bool { return u.Source == attempt.UsageReported }
