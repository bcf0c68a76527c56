package poll

import (
	"sync"
	"sync/atomic"
	"time"

	"turnout/gateway/routing"
	"turnout/internal/fold"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

const (
	// stale is how old a reading may be: ages move on even where nothing happens.
	stale = time.Second
	// settle is how old it may be although own attempts have ended since: under load that is always so.
	settle = 10 * time.Millisecond
)

// Watch weighs the metrics of a model's candidates and keeps the result as long as it is good.
type Watch struct {
	p       *Poller
	keys    []snapshot.Key
	history resource.History
	profile string
	minimum int64
	version *atomic.Uint64 // of the model

	current atomic.Pointer[Reading]
	mu      sync.Mutex // one goroutine weighs, the others take what there is
}

// Reading is what was known of the candidates at one moment. It never changes.
type Reading struct {
	Metrics    []routing.Metrics // by index of the watch's keys
	SnapshotID string            // "" where there is none yet
	AsOf       time.Time

	at      time.Time
	version uint64
	of      *loaded
}

// Watch returns a watch on candidates of one model, in their order. history and minimum
// (uptime_min_attempts) are the project's.
func (p *Poller) Watch(keys []snapshot.Key, history resource.History, minimum int64) *Watch {
	w := &Watch{p: p, keys: keys, history: history, profile: profile(history), minimum: minimum, version: new(atomic.Uint64)}
	if len(keys) > 0 {
		w.version = p.version(keys[0].Model)
	}
	return w
}

// Read returns the metrics as of now, the corrected time. It costs next to nothing while they are good.
func (w *Watch) Read(now time.Time) *Reading {
	r := w.current.Load()
	if r != nil && w.good(r, now) {
		return r
	}
	if r == nil || expired(r, now) {
		w.mu.Lock()
	} else if !w.mu.TryLock() {
		return r
	}
	defer w.mu.Unlock()
	if r = w.current.Load(); r != nil && w.good(r, now) {
		return r
	}
	r = w.weigh(now)
	w.current.Store(r)
	return r
}

func (w *Watch) good(r *Reading, now time.Time) bool {
	return !expired(r, now) && (now.Sub(r.at) < settle || r.version == w.version.Load())
}

// expired says whether a reading is too old for anybody, or of a clock that has been set back since. One
// made a moment later, by a request that began then, is as good as new.
func expired(r *Reading, now time.Time) bool {
	age := now.Sub(r.at)
	return age <= -settle || age >= stale
}

func (w *Watch) weigh(now time.Time) *Reading {
	r := &Reading{Metrics: make([]routing.Metrics, len(w.keys)), at: now, version: w.version.Load()}
	w.p.loaded.Load().of(w.profile) // a new snapshot is indexed before the lock is taken: attempts that end wait for it
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	r.of = w.p.loaded.Load()
	if r.of.set != nil {
		r.SnapshotID, r.AsOf = r.of.set.Head.ID, r.of.set.Head.AsOf
	}
	figures := r.of.of(w.profile)
	for i := range w.keys {
		r.Metrics[i] = w.known(figures.Metrics(w.keys[i], w.p.recent, w.history, now))
	}
	return r
}

func (w *Watch) known(m fold.Metrics) routing.Metrics {
	var out routing.Metrics
	if m.Uptime != nil {
		out.Known |= routing.KnownUptime
		out.Uptime = routing.AdjustUptime(*m.Uptime, m.Attempts, w.minimum)
	}
	if m.Throughput != nil {
		out.Known |= routing.KnownThroughput
		out.Throughput = *m.Throughput
	}
	if m.Latency != nil {
		out.Known |= routing.KnownLatency
		out.Latency = *m.Latency
	}
	return out
}
