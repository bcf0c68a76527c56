package resource

import "time"

// DefaultRouting is what holds where a project says nothing (routing.md 11). Every call returns a
// value of its own.
func DefaultRouting() Routing {
	return Routing{
		Weights: Weights{Price: 0.6, ImagePrice: 1, Uptime: 0.5, Throughput: 0.3, Latency: 0.075},
		Thresholds: Thresholds{
			CachePromptTokens: 5000,
			UptimePenalty:     95,
			UptimeMinAttempts: 20,
			DefaultUptime:     100,
			DefaultLatency:    1000,
			DefaultThroughput: 50,
			ExplorationRate:   0.01,
		},
		Retry:   Retry{MaxRetries: 2, LowUptimeFallbackThreshold: 90},
		History: History{WindowMinutes: 60, Tier1Minutes: 1, Tier2Minutes: 5, Tier1Weight: 10, Tier2Weight: 3, Tier3Weight: 1},
		Sticky:  Sticky{Enabled: true, TTL: time.Hour, UptimeThreshold: 85, ScoreMargin: 0.15},
		Session: Session{Enabled: true, UseUserField: true, TTL: time.Hour, UptimeThreshold: 85},
	}
}
