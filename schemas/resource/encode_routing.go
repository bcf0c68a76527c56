package resource

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// routing writes what is different from the defaults.
func (w *writer) routing(r *Routing) {
	d := DefaultRouting()
	var parts []string
	part := func(name string, f *flow) {
		if s := f.String(); s != "" {
			parts = append(parts, name+": "+s)
		}
	}
	var weights flow
	weights.float("price", r.Weights.Price, d.Weights.Price)
	weights.float("image_price", r.Weights.ImagePrice, d.Weights.ImagePrice)
	weights.float("uptime", r.Weights.Uptime, d.Weights.Uptime)
	weights.float("throughput", r.Weights.Throughput, d.Weights.Throughput)
	weights.float("latency", r.Weights.Latency, d.Weights.Latency)
	weights.float("cache", r.Weights.Cache, d.Weights.Cache)
	part("weights", &weights)

	var thresholds flow
	thresholds.int("cache_prompt_tokens", r.Thresholds.CachePromptTokens, d.Thresholds.CachePromptTokens)
	thresholds.add("cache_hit_rate", optional(r.Thresholds.CacheHitRate))
	thresholds.add("cache_output_ratio", optional(r.Thresholds.CacheOutputRatio))
	thresholds.float("uptime_penalty", r.Thresholds.UptimePenalty, d.Thresholds.UptimePenalty)
	thresholds.int("uptime_min_attempts", r.Thresholds.UptimeMinAttempts, d.Thresholds.UptimeMinAttempts)
	thresholds.float("default_uptime", r.Thresholds.DefaultUptime, d.Thresholds.DefaultUptime)
	thresholds.float("default_latency", r.Thresholds.DefaultLatency, d.Thresholds.DefaultLatency)
	thresholds.float("default_throughput", r.Thresholds.DefaultThroughput, d.Thresholds.DefaultThroughput)
	thresholds.float("exploration_rate", r.Thresholds.ExplorationRate, d.Thresholds.ExplorationRate)
	part("thresholds", &thresholds)

	var retry flow
	retry.int("max_retries", int64(r.Retry.MaxRetries), int64(d.Retry.MaxRetries))
	retry.float("low_uptime_fallback_threshold", r.Retry.LowUptimeFallbackThreshold, d.Retry.LowUptimeFallbackThreshold)
	part("retry", &retry)

	var timeouts flow
	for _, t := range []struct {
		name string
		wait time.Duration
	}{
		{"gateway_ms", r.Timeouts.Gateway}, {"streaming_ms", r.Timeouts.Streaming}, {"plain_ms", r.Timeouts.Plain},
		{"first_byte_ms", r.Timeouts.FirstByte}, {"first_output_ms", r.Timeouts.FirstOutput}, {"idle_ms", r.Timeouts.Idle},
	} {
		timeouts.int(t.name, t.wait.Milliseconds(), 0)
	}
	part("timeouts", &timeouts)

	var history flow
	history.int("window_minutes", int64(r.History.WindowMinutes), int64(d.History.WindowMinutes))
	history.int("tier1_minutes", int64(r.History.Tier1Minutes), int64(d.History.Tier1Minutes))
	history.int("tier2_minutes", int64(r.History.Tier2Minutes), int64(d.History.Tier2Minutes))
	history.float("tier1_weight", r.History.Tier1Weight, d.History.Tier1Weight)
	history.float("tier2_weight", r.History.Tier2Weight, d.History.Tier2Weight)
	history.float("tier3_weight", r.History.Tier3Weight, d.History.Tier3Weight)
	part("history", &history)

	var sticky flow
	sticky.bool("enabled", r.Sticky.Enabled, d.Sticky.Enabled)
	sticky.int("ttl_seconds", int64(r.Sticky.TTL/time.Second), int64(d.Sticky.TTL/time.Second))
	sticky.float("uptime_threshold", r.Sticky.UptimeThreshold, d.Sticky.UptimeThreshold)
	sticky.float("score_margin", r.Sticky.ScoreMargin, d.Sticky.ScoreMargin)
	part("sticky", &sticky)

	var session flow
	session.bool("enabled", r.Session.Enabled, d.Session.Enabled)
	session.bool("use_user_field", r.Session.UseUserField, d.Session.UseUserField)
	session.int("ttl_seconds", int64(r.Session.TTL/time.Second), int64(d.Session.TTL/time.Second))
	session.float("uptime_threshold", r.Session.UptimeThreshold, d.Session.UptimeThreshold)
	part("session", &session)

	var priorities flow
	for _, provider := range slices.Sorted(maps.Keys(r.ProviderPriorities)) {
		priorities.add(quote(provider), float(r.ProviderPriorities[provider]))
	}
	part("provider_priorities", &priorities)

	if len(parts) == 0 {
		return
	}
	w.open("routing")
	for _, p := range parts {
		w.WriteString("  " + p + "\n")
	}
}

func (f *flow) float(name string, value, otherwise float64) {
	if value != otherwise {
		f.add(name, float(value))
	}
}

func (f *flow) int(name string, value, otherwise int64) {
	if value != otherwise {
		f.add(name, strconv.FormatInt(value, 10))
	}
}

func (f *flow) bool(name string, value, otherwise bool) {
	if value != otherwise {
		f.add(name, strconv.FormatBool(value))
	}
}
