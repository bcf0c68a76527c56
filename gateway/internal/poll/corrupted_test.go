package poll

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
	"turnout/schemas/snapshot"
)

type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// publishAs writes a snapshot as the processor does, after a change that makes it another.
func publishAs(t *testing.T, conn *chx.Conn, head snapshot.Head, change func(*snapshot.StoredHead, *[]snapshot.StoredRow)) {
	t.Helper()
	row := snapshot.Row{Key: snapshot.Key{Provider: "a", Model: "m", Class: snapshot.ClassText}}
	row.Tier[0] = snapshot.Sums{Attempts: 90, Errors: 5}
	row.Tier[1] = snapshot.Sums{Attempts: 10}
	rows := snapshot.Flatten(map[string][]snapshot.Row{"": {row}})
	head.Rows, head.Checksum, head.Profiles = int64(len(rows)), snapshot.Checksum(rows), []snapshot.Profile{snapshot.DefaultProfile()}
	stored := head.Stored()
	if change != nil {
		change(&stored, &rows)
	}
	send := func(statement string, values ...[]any) {
		t.Helper()
		batch, err := conn.PrepareBatch(chx.SyncInsert(t.Context()), statement)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := batch.Append(v...); err != nil {
				t.Fatal(err)
			}
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
	}
	var values [][]any
	for i := range rows {
		values = append(values, rows[i].Values(head.ID, head.AsOf))
	}
	if len(values) > 0 {
		send(snapshot.InsertRows, values...)
	}
	send(snapshot.InsertHead, stored.Values())
}

// Whatever stands in the tables as the newest snapshot: it is counted and named, what was known stays,
// and a good one behind it is taken. A head once claimed so many rows that the gateway died of it, and
// one corrupted head kept every later snapshot away until it was dropped.
func TestCorruptedSnapshotsArePassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*snapshot.StoredHead, *[]snapshot.StoredRow)
		says   string
	}{
		"another checksum":     {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.Checksum++ }, "checksum"},
		"a changed number":     {func(_ *snapshot.StoredHead, rows *[]snapshot.StoredRow) { (*rows)[0].Sums.Errors = 89 }, "checksum"},
		"a row too few":        {func(_ *snapshot.StoredHead, rows *[]snapshot.StoredRow) { *rows = (*rows)[1:] }, "rows"},
		"no rows at all":       {func(_ *snapshot.StoredHead, rows *[]snapshot.StoredRow) { *rows = nil }, "rows"},
		"no JSON":              {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.Profiles = `{"nonsense` }, "profiles"},
		"an absurd row count":  {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.Rows = 1 << 62 }, "rows"},
		"other watermarks":     {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.WatermarkSum = 1 << 60 }, "watermark_sum"},
		"from the future":      {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.AsOf = h.AsOf.Add(time.Hour) }, "ahead"},
		"an absurd generation": {func(h *snapshot.StoredHead, _ *[]snapshot.StoredRow) { h.Generation, h.Checksum = 1<<40, 7 }, "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn := chtest.Migrated(t)
			var log logText
			p := New(conn, time.Minute, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
			now := time.Now().UTC().Truncate(time.Millisecond)
			head := func(id string, generation, watermark int64) snapshot.Head {
				return snapshot.Head{ID: id, Generation: generation, AsOf: now, Watermarks: map[int]int64{0: watermark}}
			}
			publishAs(t, conn, head("good-1", 2, 100), nil)
			if err := p.Poll(t.Context()); err != nil || p.Status().ID != "good-1" {
				t.Fatalf("%v, %+v", err, p.Status())
			}
			publishAs(t, conn, head("old-generation", 1, 1_000_000), nil)
			if err := p.Poll(t.Context()); err != nil || p.Status().ID != "good-1" || p.Refused() != 0 {
				t.Fatalf("after an old generation: %v, %+v", err, p.Status())
			}
			publishAs(t, conn, head("corrupted", 2, 300), c.change)
			for range 2 { // counted once
				if err := p.Poll(t.Context()); !errors.Is(err, errCorrupted) || !strings.Contains(err.Error(), "corrupted") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error does not name the snapshot and %q: %v", c.says, err)
				}
			}
			if p.Status().ID != "good-1" || p.Refused() != 1 || strings.Count(log.b.String(), "snapshot_id=corrupted") != 1 {
				t.Errorf("%+v, %d refused, log:\n%s", p.Status(), p.Refused(), log.b.String())
			}
			publishAs(t, conn, head("good-2", 2, 200), nil)
			if err := p.Poll(t.Context()); err != nil || p.Status().ID != "good-2" {
				t.Errorf("a good snapshot behind the corrupted one: %v, %+v", err, p.Status())
			}
		})
	}
}
