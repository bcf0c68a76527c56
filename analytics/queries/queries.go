// Package queries holds one SQL file a question, and for each a typed runner. The files use
// server-side parameters, so an analyst can run them as they stand:
//
//	clickhouse-client --param_from='2026-11-30 00:00:00' --param_to=... --param_project='' --queries-file savings.sql
package queries

import (
	"context"
	_ "embed" // the SQL files
	"fmt"
	"time"

	"turnout/internal/chx"
)

//go:embed savings.sql
var savingsSQL string

//go:embed cost.sql
var costSQL string

//go:embed health.sql
var healthSQL string

//go:embed retries.sql
var retriesSQL string

//go:embed cache.sql
var cacheSQL string

// maxSince bounds what one question may read: attempts are kept for 90 days.
const maxSince = 100 * 24 * time.Hour

// CheckSince says what is wrong with how far back a question looks, in words that follow its name.
func CheckSince(since time.Duration) error {
	if since <= 0 || since > maxSince {
		return fmt.Errorf("%s is not between 0 and %.0fh", since, maxSince.Hours())
	}
	return nil
}

// CheckStep does so for the step of HealthOverTime. since must be good; a step is not longer, unless
// nobody asked for less than a minute.
func CheckStep(step, since time.Duration) error {
	switch {
	case step < time.Second:
		return fmt.Errorf("%s is below 1s", step)
	case step%time.Second != 0:
		return fmt.Errorf("%s is not in whole seconds", step)
	case step > max(since, time.Minute):
		return fmt.Errorf("%s is above since, %s", step, since)
	}
	return nil
}

// Range is what every question is asked about: attempts from From (inclusive) to To (exclusive), of one
// project or, with Project empty, of all.
type Range struct {
	From, To time.Time
	Project  string
}

// Saving is what routing saved for one project on one day (UTC). Money is nano-USD.
type Saving struct {
	ProjectID         string    `ch:"project_id" json:"project_id"`
	Day               time.Time `ch:"day" json:"day"`
	BaselineKind      string    `ch:"baseline_kind" json:"baseline_kind"` // model | provider: never add them up
	Requests          uint64    `ch:"requests" json:"requests"`
	CostNanoUSD       int64     `ch:"cost_nano_usd" json:"cost_nano_usd"`
	BaselineNanoUSD   int64     `ch:"baseline_nano_usd" json:"baseline_nano_usd"`
	SavingNanoUSD     int64     `ch:"saving_nano_usd" json:"saving_nano_usd"`
	SavingShare       float64   `ch:"saving_share" json:"saving_share"` // of the baseline, 0..1
	ExploredRequests  uint64    `ch:"explored_requests" json:"explored_requests"`
	EstimatedRequests uint64    `ch:"estimated_requests" json:"estimated_requests"`
}

// Cost is what one model cost at one provider.
type Cost struct {
	Model             string `ch:"model" json:"model"`
	Provider          string `ch:"provider" json:"provider"`
	Attempts          uint64 `ch:"attempts" json:"attempts"`
	Requests          uint64 `ch:"requests" json:"requests"`
	InputTokens       int64  `ch:"input_tokens" json:"input_tokens"`
	CachedInputTokens int64  `ch:"cached_input_tokens" json:"cached_input_tokens"`
	OutputTokens      int64  `ch:"output_tokens" json:"output_tokens"`
	CostNanoUSD       int64  `ch:"cost_nano_usd" json:"cost_nano_usd"`
	RetriedNanoUSD    int64  `ch:"retried_nano_usd" json:"retried_nano_usd"` // billed for attempts that a retry replaced; part of the cost
	UnmeteredAttempts uint64 `ch:"unmetered_attempts" json:"unmetered_attempts"`
}

// Health is how one provider did with one model during one step. Percent, ms, tokens per second; nil: nothing to tell from.
type Health struct {
	At           time.Time `ch:"at" json:"at"`
	Provider     string    `ch:"provider" json:"provider"`
	Model        string    `ch:"model" json:"model"`
	Attempts     uint64    `ch:"attempts" json:"attempts"`
	Errors       uint64    `ch:"errors" json:"errors"`
	ClientErrors uint64    `ch:"client_errors" json:"client_errors"`
	RateLimited  uint64    `ch:"rate_limited" json:"rate_limited"`
	GeoBlocked   uint64    `ch:"geo_blocked" json:"geo_blocked"`
	Counted      int64     `ch:"counted" json:"counted"` // attempts without client errors: what uptime divides by
	Uptime       *float64  `ch:"uptime" json:"uptime"`
	Availability *float64  `ch:"availability" json:"availability"`
	TTFTP50MS    *float64  `ch:"ttft_p50_ms" json:"ttft_p50_ms"`
	TTFTP95MS    *float64  `ch:"ttft_p95_ms" json:"ttft_p95_ms"`
	Throughput   *float64  `ch:"throughput" json:"throughput"`
}

// Retry is how the requests ended whose first attempt failed at one provider in one way.
type Retry struct {
	Provider           string `ch:"provider" json:"provider"`
	ErrorType          string `ch:"error_type" json:"error_type"`
	Requests           uint64 `ch:"requests" json:"requests"`
	Recovered          uint64 `ch:"recovered" json:"recovered"`
	RecoveredElsewhere uint64 `ch:"recovered_elsewhere" json:"recovered_elsewhere"` // by another provider
	Attempts           uint64 `ch:"attempts" json:"attempts"`
	WastedNanoUSD      int64  `ch:"wasted_nano_usd" json:"wasted_nano_usd"`
}

// Cache is how much of the input was read from a provider's prompt cache.
type Cache struct {
	ProjectID         string  `ch:"project_id" json:"project_id"`
	Model             string  `ch:"model" json:"model"`
	Provider          string  `ch:"provider" json:"provider"`
	Attempts          uint64  `ch:"attempts" json:"attempts"`
	InputTokens       int64   `ch:"input_tokens" json:"input_tokens"`
	CachedInputTokens int64   `ch:"cached_input_tokens" json:"cached_input_tokens"`
	CacheWriteTokens  int64   `ch:"cache_write_tokens" json:"cache_write_tokens"`
	HitRate           float64 `ch:"hit_rate" json:"hit_rate"` // 0..1
	CostCachedNanoUSD int64   `ch:"cost_cached_nano_usd" json:"cost_cached_nano_usd"`
	SessionAttempts   uint64  `ch:"session_attempts" json:"session_attempts"`
}

// Savings says what routing saved, by project and day.
func Savings(ctx context.Context, db *chx.Conn, r Range) ([]Saving, error) {
	return run[Saving](ctx, db, "savings", savingsSQL, r)
}

// Costs says what was spent, by model and provider, the dearest first.
func Costs(ctx context.Context, db *chx.Conn, r Range) ([]Cost, error) {
	return run[Cost](ctx, db, "cost", costSQL, r)
}

// HealthOverTime says how providers did, in steps of step (whole seconds, at least one).
func HealthOverTime(ctx context.Context, db *chx.Conn, r Range, step time.Duration) ([]Health, error) {
	return run[Health](ctx, db, "health", healthSQL, r, chx.Named("step", max(1, uint32(step/time.Second))))
}

// Retries says what retrying recovered, by the provider that failed first.
func Retries(ctx context.Context, db *chx.Conn, r Range) ([]Retry, error) {
	return run[Retry](ctx, db, "retries", retriesSQL, r)
}

// CacheHits says how much input came from prompt caches.
func CacheHits(ctx context.Context, db *chx.Conn, r Range) ([]Cache, error) {
	return run[Cache](ctx, db, "cache", cacheSQL, r)
}

func run[T any](ctx context.Context, db *chx.Conn, name, sql string, r Range, more ...any) ([]T, error) {
	const format = "2006-01-02 15:04:05.000"
	args := append([]any{
		chx.Named("from", r.From.UTC().Format(format)),
		chx.Named("to", r.To.UTC().Format(format)),
		chx.Named("project", r.Project),
	}, more...)
	rows := []T{}
	if err := db.Select(ctx, &rows, sql, args...); err != nil {
		return nil, fmt.Errorf("asking for %s: %w", name, err)
	}
	return rows, nil
}
