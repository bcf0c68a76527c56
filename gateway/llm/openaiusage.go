package llm

import (
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// usageLimit is the largest believable count where the context is unknown.
const usageLimit = 10_000_000

// OpenAIUsage reads a usage object of the chat dialect. contextLimit is the mapping's context in tokens,
// 0 if unknown. A main count that is negative, fractional, no number, or above twice the context (or 10
// million) makes the whole of it refused: Source is then missing and Flag says why. A detail that cannot
// be is left out and flagged. An explicit zero is zero.
func OpenAIUsage(raw []byte, contextLimit int64) Usage {
	r := newUsageReader(contextLimit)
	c := &r.cursor
	c.ResetLoose(raw)
	if kind := c.Kind(); kind != jsonx.Object {
		return Usage{Source: attempt.UsageMissing, Flag: "usage_not_an_object"}
	}
	for f := c.Object(); c.Next(&f); {
		r.field(string(f.Key))
	}
	return r.finish()
}

type usageReader struct {
	cursor  jsonx.Cursor
	limit   int64
	u       Usage
	main    bool // a main count was given
	refused string
	total   int64 // -1: not given
}

func newUsageReader(contextLimit int64) usageReader {
	r := usageReader{limit: usageLimit, total: -1}
	if contextLimit > 0 {
		r.limit = min(usageLimit, 2*contextLimit)
	}
	return r
}

func (r *usageReader) field(key string) {
	u := &r.u
	switch key {
	case "prompt_tokens", "input_tokens":
		u.InputTokens = r.mainCount()
	case "completion_tokens", "output_tokens":
		u.OutputTokens = r.mainCount()
	case "total_tokens":
		if n, problem := r.count(); problem == "" {
			r.total = n
		}
	case "cached_tokens", "prompt_cache_hit_tokens": // Moonshot, DeepSeek
		if n := r.detail(); n > 0 && u.CachedInputTokens == 0 {
			u.CachedInputTokens = n
		}
	case "prompt_tokens_details", "input_tokens_details":
		r.details(func(key string) {
			switch key {
			case "cached_tokens":
				u.CachedInputTokens = max(u.CachedInputTokens, r.detail())
			case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens": // OpenRouter, LiteLLM, Alibaba
				u.CacheWriteTokens = r.detail()
			case "audio_tokens":
				u.AudioInputTokens = r.detail()
			case "image_tokens":
				u.ImageInputTokens = r.detail()
			}
		})
	case "completion_tokens_details", "output_tokens_details":
		r.details(func(key string) {
			switch key {
			case "reasoning_tokens":
				u.ReasoningTokens = r.detail()
			case "audio_tokens":
				u.AudioOutputTokens = r.detail()
			case "image_tokens":
				u.ImageOutputTokens = r.detail()
			}
		})
	}
}

func (r *usageReader) details(field func(key string)) {
	if r.cursor.Kind() != jsonx.Object {
		return
	}
	for f := r.cursor.Object(); r.cursor.Next(&f); {
		field(string(f.Key))
	}
}

// count reads a token count; problem says why it is none.
func (r *usageReader) count() (n int64, problem string) {
	kind := r.cursor.Kind()
	raw := r.cursor.Raw()
	switch {
	case len(raw) == 0:
		return 0, "malformed"
	case kind == jsonx.Null:
		return 0, "null"
	case kind == jsonx.String:
		return 0, "string"
	case kind != jsonx.Number:
		return 0, "not_a_number"
	case raw[0] == '-':
		return 0, "negative"
	}
	n, ok := jsonx.Int64(raw)
	switch {
	case !ok && !allDigits(raw):
		return 0, "fractional"
	case !ok || n > r.limit:
		return 0, "absurd"
	}
	return n, ""
}

func allDigits(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func (r *usageReader) mainCount() int64 {
	n, problem := r.count()
	if problem != "" && r.refused == "" {
		r.refused = "usage_" + problem
	}
	r.main = true
	return n
}

// detail reads a count that may be left out; null is the same as absent.
func (r *usageReader) detail() int64 {
	n, problem := r.count()
	if problem != "" && problem != "null" && r.u.Flag == "" {
		r.u.Flag = "detail_" + problem
	}
	return n
}

func (r *usageReader) finish() Usage {
	u := r.u
	switch {
	case r.cursor.Err() != nil:
		return Usage{Source: attempt.UsageMissing, Flag: "usage_malformed"}
	case r.refused != "":
		return Usage{Source: attempt.UsageMissing, Flag: r.refused}
	case !r.main:
		return Usage{Source: attempt.UsageMissing}
	}
	u.Source = attempt.UsageReported
	// Some (xAI) count reasoning beside the completion; their own total tells.
	if u.ReasoningTokens > 0 && r.total == u.InputTokens+u.OutputTokens+u.ReasoningTokens {
		u.OutputTokens += u.ReasoningTokens
	}
	within(&u.CachedInputTokens, u.InputTokens, "cached_above_input", &u.Flag)
	within(&u.CacheWriteTokens, u.InputTokens-u.CachedInputTokens, "cache_write_above_input", &u.Flag)
	within(&u.ImageInputTokens, u.InputTokens, "image_above_input", &u.Flag)
	within(&u.AudioInputTokens, u.InputTokens, "audio_above_input", &u.Flag)
	within(&u.ReasoningTokens, u.OutputTokens, "reasoning_above_output", &u.Flag)
	within(&u.ImageOutputTokens, u.OutputTokens, "image_above_output", &u.Flag)
	within(&u.AudioOutputTokens, u.OutputTokens, "audio_above_output", &u.Flag)
	return u
}

// within cuts a part down to its whole, so that no cost can become negative.
func within(part *int64, whole int64, flag string, to *string) {
	if *part <= whole {
		return
	}
	*part = whole
	if *to == "" {
		*to = flag
	}
}
