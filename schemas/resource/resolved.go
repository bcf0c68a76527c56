package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Resolved is everything of a project that decides where its requests go, defaults filled in.
type Resolved struct {
	Mode            string
	ModelIDs        string
	DefaultStrategy string
	Routing         Routing
}

// Resolved returns what decides of the project.
func (p *Project) Resolved() *Resolved {
	return &Resolved{Mode: p.Mode, ModelIDs: p.ModelIDs, DefaultStrategy: p.DefaultStrategy, Routing: p.Routing}
}

// wireResolved is a Resolved as it is stored. Every value is written, the default ones too: another
// release may have other defaults.
type wireResolved struct {
	Mode            string          `json:"mode"`
	ModelIDs        string          `json:"model_ids"`
	DefaultStrategy string          `json:"default_strategy"`
	Routing         json.RawMessage `json:"routing"`
}

type wireRouting struct {
	Weights            wireWeights        `json:"weights"`
	Thresholds         wireThresholds     `json:"thresholds"`
	Retry              wireRetry          `json:"retry"`
	Timeouts           wireTimeouts       `json:"timeouts"`
	History            wireHistory        `json:"history"`
	Sticky             wireSticky         `json:"sticky"`
	Session            wireSession        `json:"session"`
	ProviderPriorities map[string]float64 `json:"provider_priorities,omitempty"`
}

type wireWeights struct {
	Price      float64 `json:"price"`
	ImagePrice float64 `json:"image_price"`
	Uptime     float64 `json:"uptime"`
	Throughput float64 `json:"throughput"`
	Latency    float64 `json:"latency"`
	Cache      float64 `json:"cache"`
}

type wireThresholds struct {
	CachePromptTokens int64    `json:"cache_prompt_tokens"`
	CacheHitRate      *float64 `json:"cache_hit_rate,omitempty"`
	CacheOutputRatio  *float64 `json:"cache_output_ratio,omitempty"`
	UptimePenalty     float64  `json:"uptime_penalty"`
	UptimeMinAttempts int64    `json:"uptime_min_attempts"`
	DefaultUptime     float64  `json:"default_uptime"`
	DefaultLatency    float64  `json:"default_latency"`
	DefaultThroughput float64  `json:"default_throughput"`
	ExplorationRate   float64  `json:"exploration_rate"`
}

type wireRetry struct {
	MaxRetries                 int     `json:"max_retries"`
	LowUptimeFallbackThreshold float64 `json:"low_uptime_fallback_threshold"`
}

type wireTimeouts struct {
	Gateway     int64 `json:"gateway_ms,omitempty"`
	Streaming   int64 `json:"streaming_ms,omitempty"`
	Plain       int64 `json:"plain_ms,omitempty"`
	FirstByte   int64 `json:"first_byte_ms,omitempty"`
	FirstOutput int64 `json:"first_output_ms,omitempty"`
	Idle        int64 `json:"idle_ms,omitempty"`
}

type wireHistory struct {
	WindowMinutes int     `json:"window_minutes"`
	Tier1Minutes  int     `json:"tier1_minutes"`
	Tier2Minutes  int     `json:"tier2_minutes"`
	Tier1Weight   float64 `json:"tier1_weight"`
	Tier2Weight   float64 `json:"tier2_weight"`
	Tier3Weight   float64 `json:"tier3_weight"`
}

type wireSticky struct {
	Enabled         bool    `json:"enabled"`
	TTL             int64   `json:"ttl_seconds"`
	UptimeThreshold float64 `json:"uptime_threshold"`
	ScoreMargin     float64 `json:"score_margin"`
}

type wireSession struct {
	Enabled         bool    `json:"enabled"`
	UseUserField    bool    `json:"use_user_field"`
	TTL             int64   `json:"ttl_seconds"`
	UptimeThreshold float64 `json:"uptime_threshold"`
}

// Encode writes r as JSON that ParseResolved reads back to the same. Equal configurations have equal bytes.
func (r *Resolved) Encode() []byte {
	t, x, h := &r.Routing.Thresholds, &r.Routing.Timeouts, &r.Routing.History
	routing, err := json.Marshal(wireRouting{
		Weights: wireWeights(r.Routing.Weights),
		Thresholds: wireThresholds{
			CachePromptTokens: t.CachePromptTokens, CacheHitRate: t.CacheHitRate, CacheOutputRatio: t.CacheOutputRatio,
			UptimePenalty: t.UptimePenalty, UptimeMinAttempts: t.UptimeMinAttempts, DefaultUptime: t.DefaultUptime,
			DefaultLatency: t.DefaultLatency, DefaultThroughput: t.DefaultThroughput, ExplorationRate: t.ExplorationRate,
		},
		Retry: wireRetry(r.Routing.Retry),
		Timeouts: wireTimeouts{
			Gateway: x.Gateway.Milliseconds(), Streaming: x.Streaming.Milliseconds(), Plain: x.Plain.Milliseconds(),
			FirstByte: x.FirstByte.Milliseconds(), FirstOutput: x.FirstOutput.Milliseconds(), Idle: x.Idle.Milliseconds(),
		},
		History: wireHistory{
			WindowMinutes: h.WindowMinutes, Tier1Minutes: h.Tier1Minutes, Tier2Minutes: h.Tier2Minutes,
			Tier1Weight: h.Tier1Weight, Tier2Weight: h.Tier2Weight, Tier3Weight: h.Tier3Weight,
		},
		Sticky: wireSticky{
			Enabled: r.Routing.Sticky.Enabled, TTL: int64(r.Routing.Sticky.TTL / time.Second),
			UptimeThreshold: r.Routing.Sticky.UptimeThreshold, ScoreMargin: r.Routing.Sticky.ScoreMargin,
		},
		Session: wireSession{
			Enabled: r.Routing.Session.Enabled, UseUserField: r.Routing.Session.UseUserField,
			TTL: int64(r.Routing.Session.TTL / time.Second), UptimeThreshold: r.Routing.Session.UptimeThreshold,
		},
		ProviderPriorities: maps.Clone(r.Routing.ProviderPriorities),
	})
	return mustEncode(wireResolved{Mode: r.Mode, ModelIDs: r.ModelIDs, DefaultStrategy: r.DefaultStrategy, Routing: routing}, err)
}

// mustEncode encodes what Parse has checked: every number in it is finite, so that it cannot fail.
func mustEncode(v any, err error) []byte {
	if err == nil {
		var data []byte
		if data, err = json.Marshal(v); err == nil {
			return data
		}
	}
	panic("resource: a checked value cannot be written: " + err.Error())
}

// ParseResolved reads what Resolved.Encode wrote.
func ParseResolved(data []byte) (*Resolved, error) {
	var w wireResolved
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("reading a routing configuration: %w", err)
	}
	if len(w.Routing) == 0 {
		return nil, fmt.Errorf("reading a routing configuration: routing is missing")
	}
	routing, err := ParseRouting(Source{Name: "stored.json", Data: w.Routing}, "routing")
	if err != nil {
		return nil, fmt.Errorf("reading a routing configuration: %w", err)
	}
	return &Resolved{Mode: w.Mode, ModelIDs: w.ModelIDs, DefaultStrategy: w.DefaultStrategy, Routing: routing}, nil
}
