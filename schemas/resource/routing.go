package resource

import (
	"math"
	"time"
)

const day = 86400

// routing reads a project's routing configuration over the defaults, field by field.
func (c cursor) routing() Routing {
	r := DefaultRouting()
	enabled := true
	c.objectAs(true, func(o *fields) {
		inf := math.Inf(1)
		o.bool("enabled", &enabled)
		o.part("weights", func(o *fields) {
			o.float("price", &r.Weights.Price, 0, inf)
			o.float("image_price", &r.Weights.ImagePrice, 0, inf)
			o.float("uptime", &r.Weights.Uptime, 0, inf)
			o.float("throughput", &r.Weights.Throughput, 0, inf)
			o.float("latency", &r.Weights.Latency, 0, inf)
			o.float("cache", &r.Weights.Cache, 0, inf)
		})
		o.part("thresholds", func(o *fields) {
			t := &r.Thresholds
			o.int("cache_prompt_tokens", &t.CachePromptTokens, 0, math.MaxInt64)
			o.optional("cache_hit_rate", &t.CacheHitRate, 0, 1)
			o.optional("cache_output_ratio", &t.CacheOutputRatio, 0, inf)
			o.float("uptime_penalty", &t.UptimePenalty, 0, 100)
			o.int("uptime_min_attempts", &t.UptimeMinAttempts, 0, math.MaxInt64)
			o.float("default_uptime", &t.DefaultUptime, 0, 100)
			o.float("default_latency", &t.DefaultLatency, 0, inf)
			o.float("default_throughput", &t.DefaultThroughput, 0, inf)
			o.float("exploration_rate", &t.ExplorationRate, 0, 1)
		})
		o.part("retry", func(o *fields) {
			o.smallInt("max_retries", &r.Retry.MaxRetries, 0, 10)
			o.float("low_uptime_fallback_threshold", &r.Retry.LowUptimeFallbackThreshold, 0, 100)
		})
		o.part("timeouts", func(o *fields) {
			t := &r.Timeouts
			o.scaled("gateway_ms", &t.Gateway, time.Millisecond, 1, day*1000)
			o.scaled("streaming_ms", &t.Streaming, time.Millisecond, 1, day*1000)
			o.scaled("plain_ms", &t.Plain, time.Millisecond, 1, day*1000)
			o.scaled("first_byte_ms", &t.FirstByte, time.Millisecond, 1, day*1000)
			o.scaled("first_output_ms", &t.FirstOutput, time.Millisecond, 1, day*1000)
			o.scaled("idle_ms", &t.Idle, time.Millisecond, 1, day*1000)
		})
		o.part("history", func(o *fields) {
			h := &r.History
			o.smallInt("window_minutes", &h.WindowMinutes, 1, 120)
			o.smallInt("tier1_minutes", &h.Tier1Minutes, 0, math.MaxInt32)
			o.smallInt("tier2_minutes", &h.Tier2Minutes, 0, math.MaxInt32)
			o.float("tier1_weight", &h.Tier1Weight, 0, inf)
			o.float("tier2_weight", &h.Tier2Weight, 0, inf)
			o.float("tier3_weight", &h.Tier3Weight, 0, inf)
			h.Tier1Minutes = min(h.Tier1Minutes, h.WindowMinutes)
			h.Tier2Minutes = min(max(h.Tier2Minutes, h.Tier1Minutes), h.WindowMinutes)
		})
		o.part("sticky", func(o *fields) {
			s := &r.Sticky
			o.bool("enabled", &s.Enabled)
			o.scaled("ttl_seconds", &s.TTL, time.Second, 1, day)
			o.float("uptime_threshold", &s.UptimeThreshold, 0, 100)
			o.float("score_margin", &s.ScoreMargin, 0, inf)
		})
		o.part("session", func(o *fields) {
			s := &r.Session
			o.bool("enabled", &s.Enabled)
			o.bool("use_user_field", &s.UseUserField)
			o.scaled("ttl_seconds", &s.TTL, time.Second, 1, day)
			o.float("uptime_threshold", &s.UptimeThreshold, 0, 100)
		})
		if c, ok := o.get("provider_priorities"); ok {
			r.ProviderPriorities = c.priorities()
		}
	})
	if !enabled {
		return DefaultRouting()
	}
	return r
}

func (o *fields) part(name string, read func(*fields)) {
	if c, ok := o.get(name); ok {
		c.objectAs(true, read)
	}
}

// priorities reads numbers by provider.
func (c cursor) priorities() map[string]float64 {
	if !c.is(object) {
		return nil
	}
	out := map[string]float64{}
	for _, f := range c.node.fields {
		at := c.in(f.key, f.value)
		if _, twice := out[f.key]; twice {
			at.fail("stands here twice: keep one")
			continue
		}
		var p float64
		if f.value.kind != null && at.float(&p, 0, math.Inf(1)) {
			out[f.key] = p
			at.refer(KindProvider, f.key)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
