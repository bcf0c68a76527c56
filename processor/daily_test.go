package processor

import (
	"fmt"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/processor/internal/publish"
	"turnout/schemas/snapshot"
)

// Hours of usage go one by one as they get old. What is left of their day is not the day.
func TestADayThatHasLostHoursStaysAsItWasWritten(t *testing.T) {
	w := newWorld(t, 1)
	const kept = 72 * time.Hour
	now := time.Date(2026, 5, 10, 12, 30, 0, 0, time.UTC)
	day := time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC) // its first half is past keeping
	usage := func(generation int, at time.Time, offset, cost int64) {
		t.Helper()
		if err := w.conn.Exec(chx.SyncInsert(t.Context()), fmt.Sprintf("INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, organization_id, project_id, kafka_offset, cost_nano_usd, ttft_histogram) "+
			"VALUES (%d, 'usage', toDateTime(%d, 'UTC'), 0, 'p', 'm', 'o', 'j', %d, %d, arrayWithConstant(%d, toInt64(0)))", generation, at.Unix(), offset, cost, snapshot.TTFTBuckets)); err != nil {
			t.Fatal(err)
		}
	}
	daily := func() int64 {
		return w.number(fmt.Sprintf("sum(cost_nano_usd) FROM usage_daily FINAL WHERE day = toDate('%s')", day.Format(time.DateOnly)))
	}
	rollUp := func(at time.Time) {
		t.Helper()
		if err := publish.RollUp(t.Context(), w.conn, at, kept); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.conn.Exec(t.Context(), "ALTER TABLE folds REMOVE TTL"); err != nil { // the test has a clock of its own
		t.Fatal(err)
	}
	usage(1, day.Add(time.Hour), 10, 100)
	usage(1, day.Add(20*time.Hour), 20, 7)
	rollUp(day.Add(30 * time.Hour))
	if got := daily(); got != 107 {
		t.Fatalf("the whole day: %d", got)
	}
	// A replay finds only the hour that is still kept.
	usage(2, day.Add(20*time.Hour), 20, 7)
	if err := w.conn.Exec(chx.SyncInsert(t.Context()), "INSERT INTO fold_generations (generation, reason) VALUES (2, 'test')"); err != nil {
		t.Fatal(err)
	}
	rollUp(now)
	if got := daily(); got != 107 {
		t.Errorf("after hours were dropped: %d, want what was written of the whole day, 107", got)
	}
	// The next day is whole, and late events of it still count.
	usage(2, day.Add(25*time.Hour), 30, 1000)
	day = day.Add(24 * time.Hour)
	rollUp(now)
	if got := daily(); got != 1000 {
		t.Errorf("the day after: %d", got)
	}
}
