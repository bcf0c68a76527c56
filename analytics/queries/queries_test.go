package queries_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"turnout/analytics/queries"
	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
	"turnout/migrations"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// The hour that the rows below stand in, and a range around it.
var (
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	span = queries.Range{From: noon.Add(-time.Hour), To: noon.Add(time.Hour)}
)

// attempt is one row by its columns' names; what is not said has the column's default.
type attempt map[string]any

// database returns a migrated database with the given attempts in it.
func database(t *testing.T, attempts []attempt) *chx.Conn {
	t.Helper()
	cfg := chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	db, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i, a := range attempts {
		row := attempt{"event_id": fmt.Sprintf("e%d", i), "started_at": stamp(noon), "finished_at": stamp(noon.Add(time.Second)), "attempt_no": 1, "version": 1, "credential_source": "platform"}
		for k, v := range a {
			row[k] = v
		}
		var names, values []string
		for name, value := range row {
			names = append(names, name)
			if text, ok := value.(string); ok {
				values = append(values, "'"+text+"'")
			} else {
				values = append(values, fmt.Sprint(value))
			}
		}
		if err := db.Exec(chx.SyncInsert(t.Context()), "INSERT INTO attempts ("+strings.Join(names, ",")+") VALUES ("+strings.Join(values, ",")+")"); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05.000000") }

// The same dozen attempts for every question. Money in nano-USD.
var rows = []attempt{
	// p1, auto: two served requests, one of them after a failed attempt that was billed 5.
	{"project_id": "p1", "request_id": "r1", "provider": "a", "model": "m", "outcome": "completed", "cost_nano_usd": 100, "baseline_nano_usd": 400, "baseline_kind": "model", "usage_source": "reported", "input_tokens": 1000, "cached_input_tokens": 250, "output_tokens": 50, "duration_us": 1000000, "ttft_us": 100000, "reason": "weighted-score", "status_code": 200},
	{"project_id": "p1", "request_id": "r2", "provider": "b", "model": "m", "outcome": "upstream_error", "error_type": "server_error", "cost_nano_usd": 5, "baseline_kind": "", "usage_source": "missing", "status_code": 500, "will_retry": true},
	{"project_id": "p1", "request_id": "r2", "provider": "a", "model": "m", "outcome": "completed", "attempt_no": 2, "cost_nano_usd": 200, "baseline_nano_usd": 150, "baseline_kind": "model", "usage_source": "reported", "input_tokens": 2000, "cached_input_tokens": 500, "output_tokens": 100, "duration_us": 2000000, "ttft_us": 300000, "reason": "random-exploration", "status_code": 200},
	// The same event again, from a lower version: it must not count twice.
	{"event_id": "e0", "project_id": "p1", "request_id": "r1", "provider": "a", "model": "m", "outcome": "completed", "cost_nano_usd": 100, "version": 0, "baseline_nano_usd": 400, "baseline_kind": "model", "usage_source": "reported", "input_tokens": 1000, "cached_input_tokens": 250, "output_tokens": 50, "duration_us": 1000000, "ttft_us": 100000},
	// p1: no usage, so no saving; and a client's own mistake, a cancel before output, an interruption.
	{"project_id": "p1", "request_id": "r3", "provider": "a", "model": "m", "outcome": "completed", "usage_source": "missing", "baseline_kind": "model", "baseline_nano_usd": 99, "status_code": 200},
	{"project_id": "p1", "request_id": "r4", "provider": "a", "model": "m", "outcome": "client_error", "error_type": "client_error", "status_code": 400, "usage_source": "missing"},
	{"project_id": "p1", "request_id": "r5", "provider": "a", "model": "m", "outcome": "canceled", "error_type": "canceled", "usage_source": "missing"},
	{"project_id": "p1", "request_id": "r6", "provider": "a", "model": "m", "outcome": "interrupted", "usage_source": "missing"},
	// p1: a rate limit that nobody recovered.
	{"project_id": "p1", "request_id": "r7", "provider": "b", "model": "m", "outcome": "upstream_error", "error_type": "rate_limited", "status_code": 429, "usage_source": "missing"},
	// p2: a fixed model, with an estimate; its own key; outside of the range.
	{"project_id": "p2", "request_id": "r8", "provider": "a", "model": "n", "outcome": "completed", "cost_nano_usd": 30, "baseline_nano_usd": 40, "baseline_kind": "provider", "usage_source": "estimated", "input_tokens": 10, "output_tokens": 4, "duration_us": 500000, "reason": "session-sticky", "status_code": 200},
	{"project_id": "p2", "request_id": "r9", "provider": "a", "model": "n", "outcome": "upstream_error", "error_type": "server_error", "credential_source": "byok", "usage_source": "missing", "status_code": 503},
	{"project_id": "p2", "request_id": "r10", "provider": "a", "model": "n", "outcome": "completed", "cost_nano_usd": 7777, "started_at": stamp(noon.Add(-3 * time.Hour)), "finished_at": stamp(noon.Add(-3 * time.Hour)), "usage_source": "reported", "baseline_kind": "model", "baseline_nano_usd": 99999},
}

func TestSavings(t *testing.T) {
	got, err := queries.Savings(t.Context(), database(t, rows), span)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	want := []queries.Saving{
		// r1 400 against 100; r2 cost more than its baseline, which is then the cost: 200 against 200.
		{ProjectID: "p1", Day: day, BaselineKind: "model", Requests: 2, CostNanoUSD: 300, BaselineNanoUSD: 600, SavingNanoUSD: 300, SavingShare: 0.5, ExploredRequests: 1},
		{ProjectID: "p2", Day: day, BaselineKind: "provider", Requests: 1, CostNanoUSD: 30, BaselineNanoUSD: 40, SavingNanoUSD: 10, SavingShare: 0.25, EstimatedRequests: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSavingsOfOneProject(t *testing.T) {
	r := span
	r.Project = "p2"
	got, err := queries.Savings(t.Context(), database(t, rows), r)
	if err != nil || len(got) != 1 || got[0].ProjectID != "p2" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCosts(t *testing.T) {
	got, err := queries.Costs(t.Context(), database(t, rows), span)
	if err != nil {
		t.Fatal(err)
	}
	want := []queries.Cost{
		{Model: "m", Provider: "a", Attempts: 6, Requests: 6, InputTokens: 3000, CachedInputTokens: 750, OutputTokens: 150, CostNanoUSD: 300, UnmeteredAttempts: 1},
		{Model: "n", Provider: "a", Attempts: 2, Requests: 2, InputTokens: 10, OutputTokens: 4, CostNanoUSD: 30},
		{Model: "m", Provider: "b", Attempts: 2, Requests: 1, CostNanoUSD: 5, RetriedNanoUSD: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHealthOverTime(t *testing.T) {
	got, err := queries.HealthOverTime(t.Context(), database(t, rows), span, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	number := func(f float64) *float64 { return &f }
	want := []queries.Health{
		// r1 r2 r3 completed, r4 a client error; canceled before output and interrupted are on neither
		// side. 150 tokens in 3 s.
		{At: noon, Provider: "a", Model: "m", Attempts: 4, ClientErrors: 1, Counted: 3, Uptime: number(100), Availability: number(100), TTFTP50MS: number(200), TTFTP95MS: number(290), Throughput: number(50)},
		{At: noon, Provider: "a", Model: "n", Attempts: 1, Counted: 1, Uptime: number(100), Availability: number(100), Throughput: number(8)},
		// A 500 and a 429: availability forgives the second.
		{At: noon, Provider: "b", Model: "m", Attempts: 2, Errors: 2, RateLimited: 1, Counted: 2, Uptime: number(0), Availability: number(50)},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
}

func TestRetries(t *testing.T) {
	got, err := queries.Retries(t.Context(), database(t, rows), span)
	if err != nil {
		t.Fatal(err)
	}
	want := []queries.Retry{
		{Provider: "a", ErrorType: "server_error", Requests: 1, Attempts: 1},
		{Provider: "b", ErrorType: "rate_limited", Requests: 1, Attempts: 1},
		{Provider: "b", ErrorType: "server_error", Requests: 1, Recovered: 1, RecoveredElsewhere: 1, Attempts: 2, WastedNanoUSD: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A request belongs to the time in which it began: one that began before was taken for a request whose
// retry was its first attempt, one that was retried after the end for one that nobody recovered.
func TestRetriesAtTheEdgesOfATime(t *testing.T) {
	at := func(edge time.Time, seconds int) string { return stamp(edge.Add(time.Duration(seconds) * time.Second)) }
	attempts := []attempt{
		{"request_id": "before", "provider": "a", "outcome": "upstream_error", "error_type": "server_error", "started_at": at(span.From, -1)},
		{"request_id": "before", "provider": "b", "outcome": "upstream_error", "error_type": "server_error", "attempt_no": 2, "started_at": at(span.From, 1)},
		{"request_id": "before", "provider": "c", "outcome": "completed", "attempt_no": 3, "started_at": at(span.From, 2)},
		{"request_id": "at the end", "provider": "a", "outcome": "network_error", "error_type": "network_error", "started_at": at(span.To, -1)},
		{"request_id": "at the end", "provider": "b", "outcome": "completed", "attempt_no": 2, "started_at": at(span.To, 1)},
		{"request_id": "after", "provider": "a", "outcome": "upstream_error", "error_type": "server_error", "started_at": at(span.To, 0)},
	}
	got, err := queries.Retries(t.Context(), database(t, attempts), span)
	if err != nil {
		t.Fatal(err)
	}
	want := []queries.Retry{{Provider: "a", ErrorType: "network_error", Requests: 1, Recovered: 1, RecoveredElsewhere: 1, Attempts: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCacheHits(t *testing.T) {
	got, err := queries.CacheHits(t.Context(), database(t, rows), span)
	if err != nil {
		t.Fatal(err)
	}
	want := []queries.Cache{{ProjectID: "p1", Model: "m", Provider: "a", Attempts: 2, InputTokens: 3000, CachedInputTokens: 750, HitRate: 0.25}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoRowsIsAnEmptyList(t *testing.T) {
	got, err := queries.Savings(t.Context(), database(t, nil), span)
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("got %#v, %v", got, err)
	}
}
