package llm

import "turnout/schemas/attempt"

// MessagesUsage gathers usage in Anthropic's accounting, where cached and written tokens stand beside
// the input. A stream reports it in pieces: what comes later replaces what came before, field by field.
// What is refused is refused as in OpenAIUsage. The zero value is ready.
type MessagesUsage struct {
	input, read, written, written5m, written1h, output, thinking int64
	inputSeen, outputSeen                                        bool
	flag                                                         string
}

// Take reads a usage object; contextLimit is the mapping's context, 0 if unknown.
func (m *MessagesUsage) Take(raw []byte, contextLimit int64) {
	r := newUsageReader(contextLimit)
	next := *m
	c := &r.cursor
	c.ResetLoose(raw)
	c.EachField(func(key []byte) {
		switch string(key) {
		case "input_tokens":
			next.input, next.inputSeen = r.mainCount(), true
		case "output_tokens":
			next.output, next.outputSeen = r.mainCount(), true
		case "cache_read_input_tokens":
			r.replace(&next.read)
		case "cache_creation_input_tokens":
			r.replace(&next.written)
		case "cache_creation":
			c.EachField(func(key []byte) {
				switch string(key) {
				case "ephemeral_5m_input_tokens":
					r.replace(&next.written5m)
				case "ephemeral_1h_input_tokens":
					r.replace(&next.written1h)
				}
			})
		case "output_tokens_details":
			c.EachField(func(key []byte) {
				if string(key) == "thinking_tokens" {
					r.replace(&next.thinking)
				}
			})
		}
	})
	switch {
	case c.Err() != nil:
		m.flag = "usage_malformed"
	case r.refused != "":
		m.flag = r.refused
	default:
		if r.u.Flag != "" {
			next.flag = r.u.Flag
		}
		*m = next
	}
}

// replace reads a count that may be left out; null changes nothing.
func (r *usageReader) replace(to *int64) {
	n, problem := r.count()
	switch {
	case problem == "":
		*to = n
	case problem != "null" && r.u.Flag == "":
		r.u.Flag = "detail_" + problem
	}
}

// Usage is what is known so far, in the buckets of the event.
func (m *MessagesUsage) Usage() Usage {
	if !m.inputSeen && !m.outputSeen {
		return Usage{Source: attempt.UsageMissing, Flag: m.flag}
	}
	u := Usage{
		CachedInputTokens: m.read, CacheWriteTokens: m.written, OutputTokens: m.output, ReasoningTokens: m.thinking,
		Source: attempt.UsageReported, Flag: m.flag,
	}
	// The split by lifetime is of the same tokens; without one all are of 5 minutes.
	if long := min(m.written1h, m.written); long > 0 {
		u.CacheWrite1hTokens, u.CacheWriteTokens = long, m.written-long
	} else if m.written == 0 {
		u.CacheWriteTokens, u.CacheWrite1hTokens = m.written5m, m.written1h
	}
	u.InputTokens = m.input + u.CachedInputTokens + u.CacheWriteTokens + u.CacheWrite1hTokens
	within(&u.ReasoningTokens, u.OutputTokens, "reasoning_above_output", &u.Flag)
	return u
}
