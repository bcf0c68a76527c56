package partition

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/schemas/attempt"
)

// The model: one partition's log with duplicates, a store with the rules of its tables, and workers
// that read, crash at any step, or go on as zombies beside their successor. Whatever happens, the
// buckets that are stored at the end are those of the distinct events, each counted at its lowest
// offset.

var modelStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type modelStore struct {
	raw      map[string]int64 // event id -> lowest offset: ReplacingMergeTree(version)
	buckets  map[Key]Bucket   // highest offset wins: ReplacingMergeTree(kafka_offset)
	progress int64
}

// putBucket is an insert into folds. Two writers of one offset must agree.
func (s *modelStore) putBucket(t *rapid.T, c Changed) {
	have, ok := s.buckets[c.Key]
	if ok && have.Offset == c.Offset && have != c.Bucket {
		t.Fatalf("bucket %v at offset %d is %+v for one writer and %+v for another", c.Key, c.Offset, have, c.Bucket)
	}
	if !ok || have.Offset < c.Offset {
		s.buckets[c.Key] = c.Bucket
	}
}

func (s *modelStore) span(at Span) []Changed {
	var out []Changed
	for k, b := range s.buckets {
		if k.Span == at {
			out = append(out, Changed{k, b})
		}
	}
	return out
}

// modelWorker is a process that owns, or believes to own, the partition. Each step of a batch is a
// step of its own, so that others may come between.
type modelWorker struct {
	state   *State
	next    int64
	records []Record
	step    int
	stored  map[string]int64
	changed []Changed
}

func newWorker(s *modelStore) *modelWorker { return &modelWorker{state: New(), next: s.progress + 1} }

func (w *modelWorker) advance(t *rapid.T, s *modelStore, log []Record, size int, h Horizon) {
	switch w.step {
	case 0: // fetch
		if w.next >= int64(len(log)) {
			return
		}
		w.records = log[w.next:min(int(w.next)+size, len(log))]
	case 1: // raw rows, of which a crash may leave some
		for _, r := range w.records {
			if have, ok := s.raw[r.Event.EventID]; !ok || r.Offset < have {
				s.raw[r.Event.EventID] = r.Offset
			}
		}
	case 2: // read back
		for _, at := range w.state.Missing(w.records, h) {
			w.state.Load(at, s.span(at))
		}
	case 3: // look up
		w.stored = map[string]int64{}
		for _, r := range w.state.Suspects(w.records) {
			if offset, ok := s.raw[r.Event.EventID]; ok {
				w.stored[r.Event.EventID] = offset
			}
		}
	case 4: // count
		w.changed, _ = w.state.Apply(w.records, w.stored, h)
	case 5: // buckets and progress: one block
		for _, c := range w.changed {
			s.putBucket(t, c)
		}
		last := w.records[len(w.records)-1].Offset
		s.progress = max(s.progress, last)
		w.next = last + 1
		w.state.Forget(rapid.IntRange(0, 3).Draw(t, "forget"))
		w.step, w.records = -1, nil
	}
	w.step++
}

func modelLog(t *rapid.T) []Record {
	n := rapid.IntRange(1, 40).Draw(t, "events")
	var log []Record
	for i := range n {
		e := &attempt.Event{
			EventID: fmt.Sprintf("00000000-0000-7000-8000-%012d", i), Provider: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "provider"), Model: "m", ProjectID: "p",
			Endpoint: attempt.EndpointChat, CredentialSource: attempt.Platform, Outcome: rapid.SampledFrom([]attempt.Outcome{attempt.Completed, attempt.UpstreamError}).Draw(t, "outcome"),
			StartedAt: modelStart, FinishedAt: modelStart.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "slot")) * 10 * time.Second), OutputTokens: int64(i + 1), DurationUS: 1000,
		}
		log = append(log, Record{Event: e})
	}
	// A copy may stand anywhere behind its first, and is marked.
	for range rapid.IntRange(0, 20).Draw(t, "copies") {
		of := rapid.IntRange(0, len(log)-1).Draw(t, "of")
		at := rapid.IntRange(of+1, len(log)).Draw(t, "at")
		log = append(log[:at:at], append([]Record{{Event: log[of].Event, Replayed: true}}, log[at:]...)...)
	}
	// A sender that was cut off marks what it sends again even if it never arrived.
	for i := range log {
		log[i].Offset = int64(i)
		if rapid.IntRange(0, 9).Draw(t, "marked") == 0 {
			log[i].Replayed = true
		}
	}
	return log
}

// truth counts each event once, at its first place.
func truth(log []Record, h Horizon) map[Key]Bucket {
	s, seen := New(), map[string]bool{}
	var once []Record
	for _, r := range log {
		if !seen[r.Event.EventID] {
			seen[r.Event.EventID] = true
			r.Replayed = false
			once = append(once, r)
		}
	}
	for _, at := range s.Missing(once, h) {
		s.Load(at, nil)
	}
	changed, _ := s.Apply(once, nil, h)
	out := map[Key]Bucket{}
	for _, c := range changed {
		out[c.Key] = c.Bucket
	}
	return out
}

func model(t *rapid.T) {
	h := Horizon{Now: modelStart.Add(time.Minute), OldestSlot: modelStart.Add(-time.Hour), OldestUsage: modelStart.Add(-time.Hour)}
	log := modelLog(t)
	store := &modelStore{raw: map[string]int64{}, buckets: map[Key]Bucket{}, progress: -1}
	workers := []*modelWorker{newWorker(store)}
	for range rapid.IntRange(0, 150).Draw(t, "steps") {
		i := rapid.IntRange(0, len(workers)-1).Draw(t, "who")
		switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
		case what == 0: // killed; its successor reads the progress
			workers[i] = newWorker(store)
		case what == 1 && len(workers) < 3: // the partition moves, the old owner does not know yet
			workers = append(workers, newWorker(store))
		case what == 2 && len(workers) > 1: // a zombie ends at last
			workers = append(workers[:i], workers[i+1:]...)
		case what == 3 && workers[i].step == 1: // killed in the middle of the raw insert
			some := workers[i].records[:rapid.IntRange(0, len(workers[i].records)).Draw(t, "partly")]
			for _, r := range some {
				if have, ok := store.raw[r.Event.EventID]; !ok || r.Offset < have {
					store.raw[r.Event.EventID] = r.Offset
				}
			}
			workers[i] = newWorker(store)
		default:
			workers[i].advance(t, store, log, rapid.IntRange(1, 7).Draw(t, "batch"), h)
		}
	}
	last := newWorker(store)
	for last.next < int64(len(log)) || last.step != 0 {
		last.advance(t, store, log, 5, h)
	}

	if want := truth(log, h); len(want) != len(store.buckets) {
		t.Fatalf("%d buckets, want %d", len(store.buckets), len(want))
	} else {
		for k, b := range want {
			if store.buckets[k] != b {
				t.Fatalf("bucket %v is %+v, want %+v", k, store.buckets[k], b)
			}
		}
	}
	for _, r := range log {
		if lowest := store.raw[r.Event.EventID]; lowest > r.Offset {
			t.Fatalf("event %s: raw row of offset %d stays, %d is lower", r.Event.EventID, lowest, r.Offset)
		}
	}
}

// rapid runs a hundred cases a check; more of them make the ten thousand that the rule is held to.
func TestModelOfCrashesDuplicatesAndZombies(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 10
	}
	for range runs {
		rapid.Check(t, model)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0190a2b4-0000-7000-8000-00000000abcd")
	f.Add("0190A2B4-0000-7000-8000-00000000ABCD")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseID(text)
		if !ok {
			return
		}
		if again := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]); again != text {
			t.Errorf("%q is read as %q", text, again)
		}
	})
}

func TestLateEventsApplyWhileTheirSpanIsKept(t *testing.T) {
	now := modelStart.Add(60 * time.Hour)
	h := Horizon{Now: now, OldestSlot: now.Add(-48 * time.Hour), OldestUsage: now.Add(-8 * 24 * time.Hour)}
	e := func(id string, age time.Duration) *attempt.Event {
		return &attempt.Event{EventID: id, Provider: "a", Model: "m", Endpoint: attempt.EndpointChat, CredentialSource: attempt.Platform, Outcome: attempt.Completed, FinishedAt: now.Add(-age)}
	}
	records := []Record{{Event: e("x", time.Minute), Offset: 0}, {Event: e("y", time.Hour), Offset: 1}, {Event: e("z", 50*time.Hour), Offset: 2}, {Event: e("z", 50*time.Hour), Offset: 3}}
	s := New()
	missing := s.Missing(records, h)
	if len(missing) != 2+2 { // the slot of z is gone; its hour is not
		t.Errorf("missing: %v", missing)
	}
	for _, at := range missing {
		s.Load(at, nil)
	}
	changed, stats := s.Apply(records, nil, h)
	if want := (Stats{Applied: 3, Late: 2, Dropped: 1, Duplicates: 1}); stats != want || len(changed) != 4 {
		t.Errorf("%+v, %d buckets; want %+v, 4", stats, len(changed), want)
	}
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	var m memory
	id := func(i int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", i) }
	for i := range 5 * remembered {
		if _, known := m.lowest(id(i), int64(i)); known {
			t.Fatalf("id %d is known", i)
		}
	}
	if held := len(m.young) + len(m.old); held > 2*remembered {
		t.Errorf("%d ids are held", held)
	}
	if offset, known := m.lowest(id(5*remembered-1), math.MaxInt64); !known || offset != 5*remembered-1 {
		t.Errorf("the last id: %d, %v", offset, known)
	}
	if _, known := m.get(id(0)); known {
		t.Error("the first id is still known")
	}
	if _, known := m.lowest("no uuid", 7); known {
		t.Error("an odd id is known")
	}
	if offset, known := m.lowest("no uuid", 9); !known || offset != 7 {
		t.Errorf("an odd id: %d, %v", offset, known)
	}
}
