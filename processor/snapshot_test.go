package processor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"turnout/internal/fold"
	"turnout/internal/kafkax"
	"turnout/processor/internal/publish"
	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// A snapshot is what folding its events anew gives, for every profile.
func TestASnapshotIsARecompute(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(31, 32))
	now := time.Now().Truncate(time.Second)
	var events []*attempt.Event
	var records []kafkax.Record
	for range 2000 {
		// Up to 70 minutes back, and up to 3 minutes ahead.
		e := event(rng, now.Add(-time.Duration(rng.IntN(4200)-180)*time.Second))
		if rng.IntN(20) == 0 {
			e.CustomProvider, e.Provider = true, "custom"
		}
		events = append(events, e)
		records = append(records, record(e, false))
	}
	w.write(records...)
	_, stop := w.run()
	w.caughtUp(20 * time.Second)
	stop()

	profiles := []snapshot.Profile{snapshot.DefaultProfile(), snapshot.NewProfile(30, 2, 10), snapshot.NewProfile(5, 10, 20)}
	got, err := publish.ComputeAt(t.Context(), w.conn, 1, now, profiles)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		want := map[snapshot.Key]*snapshot.Row{}
		for _, e := range events {
			key, sums, ok := fold.Classify(e)
			if !ok {
				continue
			}
			age, ok := fold.Age(fold.SlotOf(e.FinishedAt), now)
			if !ok {
				continue
			}
			tier, ok := p.Tier(age)
			if !ok {
				continue
			}
			if want[key] == nil {
				want[key] = &snapshot.Row{Key: key}
			}
			want[key].Tier[tier].Add(sums)
		}
		var list []snapshot.Row
		for _, row := range want {
			list = append(list, *row)
		}
		slices.SortFunc(list, func(a, b snapshot.Row) int { return snapshot.CompareKeys(a.Key, b.Key) })
		if len(list) < 6 || !reflect.DeepEqual(got.Rows[p.ID], list) {
			t.Errorf("profile %q: got %d rows, want %d:\n%+v\n%+v", p.ID, len(got.Rows[p.ID]), len(list), got.Rows[p.ID], list)
		}
	}
	if n := got.Head.WatermarkSum() + int64(len(got.Head.Watermarks)); n != 2000 {
		t.Errorf("watermarks %v", got.Head.Watermarks)
	}
}

func TestProfilesOfTheStateTopicArePublished(t *testing.T) {
	w := newWorld(t, 1)
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := w.client.NewWriter(topic.State).Write(t.Context(), []kafkax.Record{{Key: []byte(key), Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	put("pin/x", []byte(`{"schema_version":1,"kind":"pin","id":"x"}`))
	put("profile/broken", []byte(`{`))
	gone, value := snapshot.EncodeProfile(snapshot.NewProfile(10, 1, 2), time.Time{})
	put(gone, value)
	put(gone, nil)
	past, value := snapshot.EncodeProfile(snapshot.NewProfile(11, 1, 2), time.Now().Add(-time.Minute))
	put(past, value)
	for minutes := 1; minutes <= 17; minutes++ { // more than there may be
		key, value := snapshot.EncodeProfile(snapshot.NewProfile(100+minutes, 1, 2), time.Now().Add(time.Hour))
		put(key, value)
	}
	w.run()
	eventually(t, 20*time.Second, "sixteen profiles are published", func() bool {
		set, err := w.readSnapshot(t.Context())
		if err != nil || len(set.Head.Profiles) < snapshot.MaxProfiles {
			return false
		}
		want := []snapshot.Profile{snapshot.DefaultProfile()}
		for minutes := 1; minutes < snapshot.MaxProfiles; minutes++ {
			want = append(want, snapshot.NewProfile(100+minutes, 1, 2))
		}
		if !reflect.DeepEqual(set.Head.Profiles, want) {
			t.Errorf("profiles: %+v", set.Head.Profiles)
		}
		return true
	})
}

func TestOldSnapshotsAreDroppedWhole(t *testing.T) {
	w := newWorld(t, 1)
	insert := func(id string, at time.Time) {
		t.Helper()
		for _, query := range []string{
			"INSERT INTO snapshot_heads (snapshot_id, generation, as_of, profiles) SELECT ?, 0, fromUnixTimestamp64Milli(?), '[]'",
			"INSERT INTO snapshot_rows (snapshot_id, as_of) SELECT ?, fromUnixTimestamp64Milli(?)",
		} {
			if err := w.conn.Exec(t.Context(), query, id, at.UnixMilli()); err != nil {
				t.Fatal(err)
			}
		}
	}
	insert("old", time.Now().Add(-27*time.Hour))
	insert("kept", time.Now().Add(-23*time.Hour))
	w.run()
	eventually(t, 20*time.Second, "the old one is gone", func() bool {
		return w.number("count() FROM snapshot_heads WHERE snapshot_id = 'old'") == 0 && w.number("count() FROM snapshot_rows WHERE snapshot_id = 'old'") == 0
	})
	if w.number("count() FROM snapshot_heads WHERE snapshot_id = 'kept'") != 1 || w.number("count() FROM snapshot_rows WHERE snapshot_id = 'kept'") != 1 {
		t.Error("a snapshot that is still kept was dropped")
	}
}

// The first snapshots of a processor that had not read all of the state topic lacked the profiles that
// projects use: for ten seconds their routing knew nothing.
func TestTheFirstSnapshotHasTheProfiles(t *testing.T) {
	w := newWorld(t, 1)
	var pins []kafkax.Record
	for i := range 400_000 {
		pins = append(pins, kafkax.Record{Key: fmt.Appendf(nil, "pin/acme/%d/m", i), Value: []byte(`{"schema_version":1,"kind":"pin"}`)})
	}
	profile := snapshot.NewProfile(30, 2, 4)
	key, value := snapshot.EncodeProfile(profile, time.Now().Add(time.Hour))
	pins = append(pins, kafkax.Record{Key: []byte(key), Value: value})
	if _, err := w.client.NewWriter(topic.State).Write(t.Context(), pins); err != nil {
		t.Fatal(err)
	}
	w.run()
	eventually(t, 20*time.Second, "snapshots", func() bool { return w.number("count() FROM snapshot_heads") > 2 })
	if n := w.number("count() FROM snapshot_heads WHERE NOT position(profiles, ?)", profile.ID); n != 0 {
		t.Errorf("%d snapshots without the profile", n)
	}
}
