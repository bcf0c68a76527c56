// Package poll brings what the processor has learned to the gateway: it asks ClickHouse for the newest
// snapshot, swaps it in whole, and weighs it together with the node's own attempts that are newer. It
// never makes a request wait, and where ClickHouse is away it goes on with what it has.
package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"turnout/internal/chx"
	"turnout/internal/fold"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

const (
	queryTimeout = 10 * time.Second
	retryAfter   = 5 * time.Second // a failed poll is tried again sooner than the interval says
	// keepOwn bounds how long own attempts count without having been seen in a snapshot: the longest
	// window a project may have.
	keepOwn = 2 * time.Hour
	// maxOwn bounds how many there may be; beyond it the oldest are forgotten.
	maxOwn = 250_000
)

// Poller holds the newest snapshot and the node's own newer attempts. Its methods may be called
// concurrently and never block on the network, but for Run.
type Poller struct {
	conn     *chx.Conn
	interval time.Duration
	log      *slog.Logger
	clock    func() time.Time

	loaded  atomic.Pointer[loaded]
	offset  atomic.Int64 // of the node's clock from ClickHouse's, ns
	problem atomic.Pointer[string]

	mu     sync.Mutex // guards recent
	recent *fold.Recent
	keep   time.Duration

	corrupted sync.Map // ids of snapshots that were passed over
	refused   atomic.Int64

	versions sync.Map // model -> *atomic.Uint64: counts its own attempts
	usage    usages
}

// loaded is a snapshot and what is indexed of it when a profile is first asked for.
type loaded struct {
	set     *snapshot.Set
	figures sync.Map // profile -> *fold.Figures
}

func (l *loaded) of(profile string) *fold.Figures {
	if f, ok := l.figures.Load(profile); ok {
		return f.(*fold.Figures)
	}
	f, _ := l.figures.LoadOrStore(profile, fold.NewFigures(l.set, profile))
	return f.(*fold.Figures)
}

// New returns a poller that knows nothing yet. clock is the node's own.
func New(conn *chx.Conn, interval time.Duration, clock func() time.Time, log *slog.Logger) *Poller {
	p := &Poller{conn: conn, interval: interval, log: log, clock: clock, recent: fold.NewRecent(), keep: keepOwn}
	p.usage.kick = make(chan struct{}, 1)
	p.loaded.Store(&loaded{})
	return p
}

// Now is the node's clock corrected by its offset from ClickHouse's: the time that events carry.
func (p *Poller) Now() time.Time { return p.clock().Add(-p.Offset()) }

// Offset is how far the node's clock is ahead of ClickHouse's, as last measured.
func (p *Poller) Offset() time.Duration { return time.Duration(p.offset.Load()) }

// Status is what is known of the snapshot in use.
type Status struct {
	ID      string // "" before the first
	AsOf    time.Time
	Problem string // why the last poll failed, "" if it did not
	Own     int    // own attempts that are in no snapshot yet
}

// Status returns what is known of the snapshot in use.
func (p *Poller) Status() Status {
	var s Status
	if set := p.loaded.Load().set; set != nil {
		s.ID, s.AsOf = set.Head.ID, set.Head.AsOf
	}
	if why := p.problem.Load(); why != nil {
		s.Problem = *why
	}
	p.mu.Lock()
	s.Own = p.recent.Len()
	p.mu.Unlock()
	return s
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { p.askUsage(ctx) })
	defer wg.Wait()
	for ctx.Err() == nil {
		wait := p.interval
		if err := p.Poll(ctx); err != nil && ctx.Err() == nil {
			why := err.Error()
			if before := p.problem.Swap(&why); before == nil {
				p.log.Warn("polling ClickHouse failed, going on with what is known", "error", err)
			}
			wait = min(wait, retryAfter)
		} else if before := p.problem.Swap(nil); before != nil && ctx.Err() == nil {
			p.log.Info("ClickHouse answers again")
		}
		// A tenth more or less, so that a fleet's polls spread.
		wait = time.Duration(float64(wait) * (0.9 + 0.2*rand.Float64()))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// Poll asks once: measures the clock, and loads the newest snapshot if it is newer than the one in use.
func (p *Poller) Poll(ctx context.Context) error {
	err := p.ask(ctx)
	if err != nil {
		p.trim(nil) // own attempts keep their bounds while ClickHouse is away
	}
	return err
}

func (p *Poller) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if err := p.measure(ctx); err != nil {
		return fmt.Errorf("asking ClickHouse for the time: %w", err)
	}
	heads, err := p.heads(ctx)
	if err != nil {
		return err
	}
	var corrupted error
	for i := range heads {
		set, err := p.assemble(ctx, &heads[i])
		switch {
		case errors.Is(err, errCorrupted):
			p.refuse(heads[i].ID, err)
			if corrupted == nil {
				corrupted = err
			}
			continue
		case err != nil:
			return err
		}
		if set == nil { // not newer than the one in use, nor are those behind it
			break
		}
		p.swap(set)
		return nil
	}
	var covered map[int]int64
	if set := p.loaded.Load().set; set != nil {
		covered = set.Head.Watermarks
	}
	p.trim(covered)
	return corrupted
}

// errCorrupted says that a snapshot is not what its head says, whoever reads it.
var errCorrupted = errors.New("the snapshot is corrupted")

// earlyHead is how far ahead of ClickHouse's clock, which made it, a head may be.
const earlyHead = time.Minute

// heads reads the newest heads, the newest first.
func (p *Poller) heads(ctx context.Context) ([]snapshot.StoredHead, error) {
	rows, err := p.conn.Query(ctx, snapshot.SelectHeads)
	if err != nil {
		return nil, fmt.Errorf("reading the heads of snapshots: %w", err)
	}
	defer rows.Close()
	var heads []snapshot.StoredHead
	for rows.Next() {
		var stored snapshot.StoredHead
		if err := rows.Scan(stored.Targets()...); err != nil {
			return nil, fmt.Errorf("reading the heads of snapshots: %w", err)
		}
		heads = append(heads, stored)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the heads of snapshots: %w", err)
	}
	return heads, nil
}

// assemble reads the snapshot of a head; nil if it is not newer than the one in use.
func (p *Poller) assemble(ctx context.Context, stored *snapshot.StoredHead) (*snapshot.Set, error) {
	head, err := stored.Head()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupted, err)
	}
	if ahead := head.AsOf.Sub(p.Now()); ahead > earlyHead {
		return nil, fmt.Errorf("%w: snapshot head %s: as_of %s is %s ahead", errCorrupted, head.ID, head.AsOf.Format(time.RFC3339), ahead.Round(time.Second))
	}
	if set := p.loaded.Load().set; set != nil && !snapshot.Newer(head, set.Head) {
		return nil, nil
	}
	rows, err := p.read(ctx, head)
	if err != nil {
		return nil, err
	}
	set, err := snapshot.Assemble(head, rows)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupted, err)
	}
	return set, nil
}

// refuse counts and names a corrupted snapshot, once.
func (p *Poller) refuse(id string, why error) {
	if _, known := p.corrupted.LoadOrStore(id, struct{}{}); !known {
		p.refused.Add(1)
		p.log.Warn("a snapshot is passed over, the one before it is taken if it is new", "snapshot_id", id, "error", why)
	}
}

// Refused is how many corrupted snapshots were passed over.
func (p *Poller) Refused() int64 { return p.refused.Load() }

// swap takes a snapshot into use.
func (p *Poller) swap(set *snapshot.Set) {
	// Swap and cover under one lock: no reading counts an attempt twice or not at all.
	p.mu.Lock()
	p.loaded.Store(&loaded{set: set})
	p.cover(set.Head.Watermarks)
	p.mu.Unlock()
	p.versions.Range(func(_, v any) bool { v.(*atomic.Uint64).Add(1); return true })
}

func (p *Poller) read(ctx context.Context, head snapshot.Head) ([]snapshot.StoredRow, error) {
	rows, err := p.conn.Query(ctx, snapshot.SelectRows, head.ID)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", head.ID, err)
	}
	defer rows.Close()
	var stored []snapshot.StoredRow // what the head says of their number may be nonsense
	for rows.Next() {
		var r snapshot.StoredRow
		if err := r.Scan(rows.Scan); err != nil {
			return nil, fmt.Errorf("%w: a row of snapshot %s: %w", errCorrupted, head.ID, err)
		}
		stored = append(stored, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", head.ID, err)
	}
	return stored, nil
}

func (p *Poller) measure(ctx context.Context) error {
	before := p.clock()
	var theirs time.Time
	if err := p.conn.QueryRow(ctx, "SELECT now64(6, 'UTC')").Scan(&theirs); err != nil {
		return err
	}
	p.offset.Store(int64(offset(p.Offset(), before, p.clock(), theirs)))
	return nil
}

// offset is how far the node's clock is ahead after an answer of theirs that came between before and
// after. It is known to half the time that took: as long as the answer does not contradict what was
// known, that stays, or one slow answer would move every time that is stamped.
func offset(known time.Duration, before, after, theirs time.Time) time.Duration {
	half := after.Sub(before) / 2
	measured := before.Add(half).Sub(theirs)
	if (measured - known).Abs() <= half {
		return known
	}
	return measured
}

// Observe counts an attempt of this node that has just ended. e is not kept.
func (p *Poller) Observe(e *attempt.Event) {
	p.mu.Lock()
	p.recent.Add(e)
	p.mu.Unlock()
	p.version(e.Model).Add(1)
}

// Acked says where in the log an observed attempt stands. Others are ignored.
func (p *Poller) Acked(partition int, offset int64, e *attempt.Event) {
	p.mu.Lock()
	p.recent.Ack(e, partition, offset)
	p.mu.Unlock()
}

func (p *Poller) version(model string) *atomic.Uint64 {
	if v, ok := p.versions.Load(model); ok {
		return v.(*atomic.Uint64)
	}
	v, _ := p.versions.LoadOrStore(model, new(atomic.Uint64))
	return v.(*atomic.Uint64)
}

func (p *Poller) trim(watermarks map[int]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cover(watermarks)
}

// cover forgets what watermarks cover and what there is no room for; p.mu is held.
func (p *Poller) cover(watermarks map[int]int64) {
	p.recent.Cover(watermarks, p.Now(), p.keep)
	for p.recent.Len() > maxOwn && p.keep > time.Minute {
		p.keep /= 2
		p.recent.Cover(watermarks, p.Now(), p.keep)
	}
	if p.recent.Len() < maxOwn/4 {
		p.keep = keepOwn
	}
}

// profile names the snapshot's rows for a history.
func profile(h resource.History) string { return fold.ProfileOf(h).ID }
