package poll

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"turnout/gateway/routing"
	"turnout/internal/fold"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// clock is a node's clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func setup() (*Poller, *Watch, *clock) {
	c := &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	p := New(nil, time.Minute, c.Now, slog.New(slog.DiscardHandler))
	w := p.Watch([]snapshot.Key{{Provider: "a", Model: "m", Class: snapshot.ClassText}, {Provider: "b", Model: "m", Class: snapshot.ClassText}}, resource.DefaultRouting().History, 0)
	return p, w, c
}

var ids int

func ended(c *clock, provider, model string, outcome attempt.Outcome) *attempt.Event {
	ids++
	return &attempt.Event{EventID: fmt.Sprint(ids), Provider: provider, Model: model, Endpoint: attempt.EndpointChat, Outcome: outcome, StartedAt: c.Now(), FinishedAt: c.Now()}
}

// A reading is kept while nothing happens and for a moment although something did, never longer.
func TestReadingsAreKeptAndRenewed(t *testing.T) {
	p, w, c := setup()
	first := w.Read(c.Now())
	if len(first.Metrics) != 2 || first.Metrics[0].Known != 0 {
		t.Fatalf("%+v", first)
	}
	c.add(stale - time.Millisecond)
	if w.Read(c.Now()) != first {
		t.Error("a good reading was made again")
	}
	p.Observe(ended(c, "a", "other", attempt.UpstreamError))
	if w.Read(c.Now()) != first {
		t.Error("an attempt at another model made a reading stale")
	}
	p.Observe(ended(c, "a", "m", attempt.UpstreamError))
	second := w.Read(c.Now())
	if second == first || second.Metrics[0].Known != routing.KnownUptime || second.Metrics[0].Uptime != 0 || second.Metrics[1].Known != 0 {
		t.Errorf("after a failure %+v", second.Metrics)
	}
	c.add(settle / 2)
	p.Observe(ended(c, "a", "m", attempt.Completed))
	if w.Read(c.Now()) != second {
		t.Error("a reading is made again for each attempt")
	}
	c.add(settle)
	if got := w.Read(c.Now()).Metrics[0].Uptime; got != 50 {
		t.Errorf("uptime %v, want 50", got)
	}
	last := w.Read(c.Now())
	if w.Read(c.Now().Add(-settle/2)) != last {
		t.Error("a request that began a moment earlier made a good reading again")
	}
	c.add(stale)
	if w.Read(c.Now()) == last {
		t.Error("a reading outlived its second: ages move on")
	}
}

// While one request weighs, others take what there is, but after a rest of minutes they once took what
// was known before it.
func TestNobodyTakesAnOldReadingWhileAnotherWeighs(t *testing.T) {
	p, w, c := setup()
	first := w.Read(c.Now())
	p.Observe(ended(c, "a", "m", attempt.UpstreamError))
	c.add(2 * settle)
	w.mu.Lock() // somebody weighs
	if w.Read(c.Now()) != first {
		t.Error("a reading of the same second was waited for")
	}
	c.add(10 * time.Minute)
	got := make(chan *Reading, 1)
	go func() { got <- w.Read(c.Now()) }()
	select {
	case r := <-got:
		t.Errorf("a reading of %s ago was taken: %+v", c.Now().Sub(r.at), r.Metrics)
		w.mu.Unlock()
	case <-time.After(50 * time.Millisecond):
		w.mu.Unlock()
		if r := <-got; r == first || r.Metrics[0].Known != routing.KnownUptime {
			t.Errorf("%+v", r.Metrics)
		}
	}
}

// What a snapshot covers counts once, what it does not cover counts beside it.
func TestOwnAttemptsAndSnapshot(t *testing.T) {
	p, w, c := setup()
	events := make([]*attempt.Event, 10)
	for i := range events {
		events[i] = ended(c, "a", "m", attempt.UpstreamError)
		p.Observe(events[i])
	}
	for i, e := range events[:8] {
		p.Acked(0, int64(100+i), e)
	}
	row := snapshot.Row{Key: snapshot.Key{Provider: "a", Model: "m", Class: snapshot.ClassText}}
	row.Tier[0] = snapshot.Sums{Attempts: 90, Errors: 5}
	set := &snapshot.Set{Head: snapshot.Head{ID: "s", AsOf: c.Now(), Watermarks: map[int]int64{0: 104}}, Rows: map[string][]snapshot.Row{"": {row}}}
	p.mu.Lock()
	p.loaded.Store(&loaded{set: set})
	p.cover(set.Head.Watermarks)
	p.mu.Unlock()
	c.add(2 * stale)
	// The snapshot holds 100 to 104; 105 to 107 and two without a place are the node's own.
	r := w.Read(c.Now())
	if want := 100 - 100*10.0/95; math.Abs(r.Metrics[0].Uptime-want) > 1e-9 || r.SnapshotID != "s" || p.Status().Own != 5 {
		t.Errorf("uptime %v, want %v; %d own", r.Metrics[0].Uptime, want, p.Status().Own)
	}
}

// On a quiet node one failure does not banish a provider, as it does not on paper.
func TestFewAttemptsAreFilledUpWithSuccesses(t *testing.T) {
	p, _, c := setup()
	w := p.Watch([]snapshot.Key{{Provider: "a", Model: "m", Class: snapshot.ClassText}}, resource.DefaultRouting().History, 20)
	for failures, want := range map[int]float64{1: 95, 5: 75, 20: 0, 30: 0} {
		p.recent = fold.NewRecent()
		for range failures {
			p.Observe(ended(c, "a", "m", attempt.UpstreamError))
		}
		c.add(stale)
		if got := w.Read(c.Now()).Metrics[0].Uptime; got != want {
			t.Errorf("%d failures: uptime %v, want %v", failures, got, want)
		}
	}
}

// Readers and writers at once: for the race detector.
func TestConcurrentReadings(t *testing.T) {
	p, w, c := setup()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				if r := w.Read(c.Now()); len(r.Metrics) != 2 {
					t.Error("a torn reading")
				}
				c.add(time.Millisecond)
			}
		})
	}
	events := make([]*attempt.Event, 300)
	for i := range events {
		events[i] = ended(c, "b", "m", attempt.Completed)
	}
	wg.Go(func() {
		for i, e := range events {
			p.Observe(e)
			p.Acked(i%3, int64(i), e)
		}
	})
	wg.Wait()
}

func BenchmarkRead(b *testing.B) {
	p, w, c := setup()
	for range 1000 {
		p.Observe(ended(c, "a", "m", attempt.Completed))
	}
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Read(c.now)
		}
	})
	b.Run("weighed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.weigh(c.now)
		}
	})
}
