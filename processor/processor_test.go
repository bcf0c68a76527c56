package processor

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"turnout/migrations"
	"turnout/processor/internal/publish"
	"turnout/processor/verify"
	"turnout/schemas/snapshot"
)

// verified fails the test unless every bucket is what the raw rows say.
func (w *world) verified() {
	w.t.Helper()
	report, err := verify.Folds(w.t.Context(), w.conn, w.generation(), time.Now().Add(-24*time.Hour), time.Now().Add(-24*time.Hour))
	if err != nil {
		w.t.Fatal(err)
	}
	if report.Slots == 0 || report.Hours == 0 {
		w.t.Fatalf("nothing was compared: %+v", report)
	}
	for _, d := range report.Differences {
		w.t.Error(d)
	}
}

func (w *world) generation() uint32 {
	return uint32(w.number("max(generation) FROM fold_generations"))
}

// readSnapshot reads the newest snapshot as a gateway does.
func (w *world) readSnapshot(ctx context.Context) (*snapshot.Set, error) {
	var stored snapshot.StoredHead
	if err := w.conn.QueryRow(ctx, snapshot.SelectHead).Scan(stored.Targets()...); err != nil {
		return nil, err
	}
	head, err := stored.Head()
	if err != nil {
		return nil, err
	}
	rows, err := w.conn.Query(ctx, snapshot.SelectRows, head.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []snapshot.StoredRow
	for rows.Next() {
		var r snapshot.StoredRow
		if err := r.Scan(rows.Scan); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return snapshot.Assemble(head, all)
}

func TestEventsBecomeRowsBucketsAndASnapshot(t *testing.T) {
	w := newWorld(t, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	events := w.writeEvents(rng, 3000)
	w.run()
	w.caughtUp(20 * time.Second)
	if n := w.unique(); n != 3000 {
		t.Fatalf("%d rows for 3000 events", n)
	}
	w.verified()

	// Every column holds its field.
	e := events[17]
	var provider, outcome, considered string
	var cost, tokens int64
	var started time.Time
	if err := w.conn.QueryRow(t.Context(), "SELECT provider, outcome, considered_json, cost_nano_usd, input_tokens, started_at FROM attempts_unique WHERE event_id = ?", e.EventID).
		Scan(&provider, &outcome, &considered, &cost, &tokens, &started); err != nil {
		t.Fatal(err)
	}
	if provider != e.Provider || outcome != string(e.Outcome) || cost != e.CostNanoUSD || tokens != e.InputTokens || !started.Equal(e.StartedAt) {
		t.Errorf("row of %s: %s %s %d %d %s", e.EventID, provider, outcome, cost, tokens, started)
	}

	// A head that sees all of it, with exactly its attempts.
	eventually(t, 15*time.Second, "a snapshot holds everything", func() bool {
		set, err := w.readSnapshot(t.Context())
		if err != nil || set.Head.WatermarkSum()+int64(len(set.Head.Watermarks)) != 3000 {
			return false
		}
		var got int64
		for _, row := range set.Rows[""] {
			for _, s := range row.Tier {
				got += s.Attempts
			}
		}
		want := w.number("sum(attempts) FROM folds FINAL WHERE kind = 'slot'")
		if got != want {
			t.Errorf("snapshot counts %d attempts, the slots %d", got, want)
		}
		return true
	})
	if n := w.number("sum(requests) FROM usage_hourly"); n != w.number("countIf(NOT will_retry) FROM attempts_unique") {
		t.Errorf("usage_hourly counts %d requests", n)
	}
	if err := publish.RollUp(t.Context(), w.conn, time.Now().Add(time.Hour), migrations.DefaultRetention().UsageHourly); err != nil {
		t.Fatal(err)
	}
	if a, b := w.number("sum(cost_nano_usd) FROM usage_daily FINAL"), w.number("sum(cost_nano_usd) FROM attempts_unique"); a != b {
		t.Errorf("usage_daily costs %d, the attempts %d", a, b)
	}
}
