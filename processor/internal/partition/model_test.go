package partition

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/schemas/attempt"
)

// The model: one partition's log with duplicates, a store with the rules of its tables, and workers
// that read, crash at any step, or go on as zombies beside their successor. Whatever happens, the
// buckets that are stored at the end are those of the distinct events, each counted at its lowest
// offset.

// mistake is a rule left out or taken wrong, to see that the model would notice.
type mistake int

const (
	none mistake = iota
	// presence: an event is a duplicate if its row is there before the batch is stored, whatever the
	// offset. After a crash between the raw rows and the sums its own row is there.
	presence
	// unversioned: sums that are read back count as if they held nothing of the log.
	unversioned
	// apart: progress is stored before the sums, not with them.
	apart
	// newest: the sums written last stay, not those of the highest offset.
	newest
	// forgetful: nothing is looked up. What was sent again after a restart counts again.
	forgetful
)

var modelStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type modelStore struct {
	raw      map[string]int64 // event id -> lowest offset: ReplacingMergeTree(version)
	buckets  map[Key]Bucket   // highest offset wins: ReplacingMergeTree(kafka_offset)
	progress int64
	mistake  mistake
	wrong    string // the first thing that must not be
}

// putBucket is an insert into folds. Two writers of one offset must agree.
func (s *modelStore) putBucket(c Changed) {
	have, ok := s.buckets[c.Key]
	if ok && have.Offset == c.Offset && have != c.Bucket && s.wrong == "" {
		s.wrong = fmt.Sprintf("bucket %v at offset %d is %+v for one writer and %+v for another", c.Key, c.Offset, have, c.Bucket)
	}
	if !ok || have.Offset < c.Offset || s.mistake == newest {
		s.buckets[c.Key] = c.Bucket
	}
}

// putRaw is an insert into attempts: the lowest offset stays.
func (s *modelStore) putRaw(records []Record) {
	for _, r := range records {
		if have, ok := s.raw[r.Event.EventID]; !ok || r.Offset < have {
			s.raw[r.Event.EventID] = r.Offset
		}
	}
}

// lookUp is what is stored of an event, as the rule has it.
func (s *modelStore) lookUp(r Record, before map[string]bool) (int64, bool) {
	switch s.mistake {
	case forgetful:
		return 0, false
	case presence:
		return -1, before[r.Event.EventID]
	}
	offset, ok := s.raw[r.Event.EventID]
	return offset, ok
}

func (s *modelStore) span(at Span) []Changed {
	var out []Changed
	for k, b := range s.buckets {
		if k.Span != at {
			continue
		}
		if s.mistake == unversioned {
			b.Offset = -1
		}
		out = append(out, Changed{k, b})
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
	before  map[string]bool // whether a row was there before the raw insert
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
		w.before = map[string]bool{}
		for _, r := range w.records {
			_, w.before[r.Event.EventID] = s.raw[r.Event.EventID]
		}
		s.putRaw(w.records)
	case 2: // read back
		for _, at := range w.state.Missing(w.records, h) {
			w.state.Load(at, s.span(at))
		}
	case 3: // look up
		w.stored = map[string]int64{}
		for _, r := range w.state.Suspects(w.records) {
			if offset, ok := s.lookUp(r, w.before); ok {
				w.stored[r.Event.EventID] = offset
			}
		}
	case 4: // count
		w.changed, _ = w.state.Apply(w.records, w.stored, h)
		if s.mistake == apart {
			s.progress = max(s.progress, w.records[len(w.records)-1].Offset)
		}
	case 5: // buckets and progress: one block
		for _, c := range w.changed {
			s.putBucket(c)
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

// model makes one run and says what went wrong, "" if nothing did.
func model(t *rapid.T, m mistake) string {
	h := Horizon{Now: modelStart.Add(time.Minute), OldestSlot: modelStart.Add(-time.Hour), OldestUsage: modelStart.Add(-time.Hour)}
	log := modelLog(t)
	store := &modelStore{raw: map[string]int64{}, buckets: map[Key]Bucket{}, progress: -1, mistake: m}
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
			store.putRaw(workers[i].records[:rapid.IntRange(0, len(workers[i].records)).Draw(t, "partly")])
			workers[i] = newWorker(store)
		default:
			workers[i].advance(t, store, log, rapid.IntRange(1, 7).Draw(t, "batch"), h)
		}
	}
	last := newWorker(store)
	for last.next < int64(len(log)) || last.step != 0 {
		last.advance(t, store, log, 5, h)
	}
	return store.judge(log, h)
}

// judge holds what is stored against the truth.
func (s *modelStore) judge(log []Record, h Horizon) string {
	want := truth(log, h)
	switch {
	case s.wrong != "":
		return s.wrong
	case len(want) != len(s.buckets):
		return fmt.Sprintf("%d buckets, want %d", len(s.buckets), len(want))
	}
	for k, b := range want {
		if s.buckets[k] != b {
			return fmt.Sprintf("bucket %v is %+v, want %+v", k, s.buckets[k], b)
		}
	}
	for _, r := range log {
		if lowest := s.raw[r.Event.EventID]; lowest > r.Offset {
			return fmt.Sprintf("event %s: raw row of offset %d stays, %d is lower", r.Event.EventID, lowest, r.Offset)
		}
	}
	return ""
}

// runs makes so many runs on all cores, by the hundred that rapid makes at once.
func runs(t *testing.T, n int, one func(t *rapid.T)) {
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range n / 200 {
				rapid.Check(t, one)
			}
		})
	}
}

// modelRuns is how many runs there are; `make model` makes the 100,000 that the rules are held to.
func modelRuns(t *testing.T) int {
	text, ok := os.LookupEnv("TURNOUT_MODEL_RUNS")
	if !ok {
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TURNOUT_MODEL_RUNS: %v", err)
	}
	return n
}

func TestModelOfCrashesDuplicatesAndZombies(t *testing.T) {
	runs(t, modelRuns(t), func(t *rapid.T) {
		if wrong := model(t, none); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// Each rule is there for a reason: without it the model finds wrong sums.
func TestModelFindsEveryMistake(t *testing.T) {
	for name, m := range map[string]mistake{"presence": presence, "unversioned": unversioned, "apart": apart, "newest": newest, "forgetful": forgetful} {
		var all, wrong int
		for range 10 {
			rapid.Check(t, func(t *rapid.T) {
				if all++; model(t, m) != "" {
					wrong++
				}
			})
		}
		t.Logf("%s: %d of %d runs end with wrong sums", name, wrong, all)
		if wrong*50 < all {
			t.Errorf("%s: only %d of %d runs end with wrong sums: the model hardly sees it", name, wrong, all)
		}
	}
}
