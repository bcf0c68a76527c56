// Package emit keeps the promise that every call that left for a provider has exactly one row: it
// writes each attempt's start and end to a spool on the local disk and carries the ends to Kafka.
//
// Before a call goes out its start is in the spool; before the client has the last bytes of the
// answer the end is. Whatever dies when, the directory it leaves is adopted by another gateway, which
// sends what Kafka has not acknowledged and writes an interrupted event for each start without an end.
package emit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// Log is the event log of one gateway process. Safe for concurrent use.
type Log struct {
	spool   *spool
	shipper *shipper
	adopter *adopter
	metrics *metrics
	log     *slog.Logger

	closing chan struct{} // no more starts
	stop    context.CancelFunc
	shipped chan struct{} // the shipper has ended
	done    chan struct{} // ends the keeper
	others  sync.WaitGroup
	close   sync.Once
}

// Ticket stands for a start until its end.
type Ticket struct {
	seq        uint64
	considered *record // holds the encoded list, if there is one
	n          int     // its length
}

// Open makes this process's part of the spool, begins to ship, and adopts what dead processes left
// in the same place. Kafka need not be reachable. The error is about the disk.
func Open(cfg Config, client *kafkax.Client, log *slog.Logger, m *telemetry.Metrics) (*Log, error) {
	return open(cfg, client.NewWriter(topic.Attempts), client.NewWriter(topic.Requests), log, m)
}

func open(cfg Config, attempts, requests Writer, log *slog.Logger, m *telemetry.Metrics) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics := newMetrics(m)
	spool, err := openSpool(cfg, log, metrics)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{
		spool:   spool,
		shipper: &shipper{sender: newSender(attempts, requests, log, metrics), spool: spool},
		adopter: &adopter{root: cfg.Dir, sender: newSender(attempts, requests, log, metrics), spool: spool, left: map[string]bool{}},
		metrics: metrics, log: log,
		closing: make(chan struct{}), stop: stop, shipped: make(chan struct{}), done: make(chan struct{}),
	}
	spool.dropOlder = l.adopter.drop
	l.watch(m)
	l.adopter.collect() // now, so that their bytes count from the first call on
	go func() {
		defer close(l.shipped)
		l.shipper.run(ctx, l.closing)
	}()
	l.others.Go(func() { spool.keep(l.done) })
	l.others.Go(func() { l.adopter.run(ctx, l.closing) })
	return l, nil
}

// Start writes down that an attempt begins; e's identity, request, upstream and decision are kept for
// the case that this process dies before Finish. The call may go out once Start has returned nil.
// Errors are ErrSpoolFull and ErrSpoolBroken (see errors.Is), and ErrClosed after Close.
func (l *Log) Start(e *attempt.Event) (Ticket, error) {
	t := Ticket{seq: l.spool.seq.Add(1)}
	r := newRecord(kindStart, t.seq)
	if n := len(e.Considered); n > 0 {
		t.n, t.considered = n, records.Get().(*record)
		t.considered.considered = attempt.AppendConsidered(t.considered.considered[:0], e.Considered)
	}
	r.encodeEvent(e, t.encoded(e))
	err := l.spool.start(r)
	r.free()
	if err != nil {
		t.free()
		return Ticket{}, err
	}
	return t, nil
}

func (t Ticket) encoded(e *attempt.Event) []byte {
	if t.considered == nil || len(e.Considered) != t.n {
		return nil
	}
	return t.considered.considered
}

func (t Ticket) free() {
	if t.considered != nil {
		t.considered.free()
	}
}

// Finish writes down how the attempt ended; e is the whole event, its Outcome set. When Finish returns
// the end is in the spool (on the disk with fsync always) and this attempt can never become
// interrupted. It never fails: what the disk does not take stays in memory, and Ready says so. e is
// the log's until OnAck's function had it; nobody may change it any more, nor its Considered since
// Start. Each ticket is good for one call.
func (l *Log) Finish(t Ticket, e *attempt.Event) {
	l.spool.at("called")
	known := l.spool.claim(t.seq)
	if known {
		r := newRecord(kindEnd, t.seq)
		r.encodeEvent(e, t.encoded(e))
		r.finished = time.Now()
		t.free()
		known = l.spool.finish(r)
	}
	if !known {
		l.metrics.misused.Inc()
		l.log.Error("an attempt was finished twice, without a start, or after the event log was closed", "event_id", e.EventID)
	}
}

// Refuse writes down a decision that made no call. It is dropped, and counted, where the spool is full
// or broken.
func (l *Log) Refuse(e *attempt.Refused) {
	r := newRecord(kindRefusal, l.spool.seq.Add(1))
	r.finished = time.Now()
	err := r.encodeRefused(e)
	if err != nil {
		l.log.Error("a refusal cannot be written", "error", err)
	}
	if err != nil || !l.spool.refuse(r) {
		l.metrics.dropped.Inc()
	}
}

// OnAck has f called for each event of this process once Kafka has it, with its place in
// turnout.attempts.v1, in no particular order. f must be quick and must not call the log. Set it
// before the first Start.
func (l *Log) OnAck(f func(partition int, offset int64, e *attempt.Event)) { l.shipper.onAck.Store(&f) }

// Depth is the number of finished attempts and refusals of this process that Kafka has not
// acknowledged.
func (l *Log) Depth() int {
	l.spool.mu.Lock()
	defer l.spool.mu.Unlock()
	return l.spool.depth
}

// Fill is the share of max_bytes that is used, 0 to 1 and a little above.
func (l *Log) Fill() float64 { return float64(l.spool.bytes()) / float64(l.spool.cfg.MaxBytes) }

const fullForReady = .8

// Ready says why this node should get no requests: the disk fails, or the spool is 80 % full.
func (l *Log) Ready() error {
	l.spool.mu.Lock()
	broken := l.spool.broken
	l.spool.mu.Unlock()
	if broken != nil {
		return fmt.Errorf("%w: %w", ErrSpoolBroken, broken)
	}
	if fill := l.Fill(); fill >= fullForReady {
		return fmt.Errorf("the event spool is %.0f %% full: Kafka does not take events, or spool.max_bytes is too small", 100*fill)
	}
	return nil
}

// Close refuses further starts, ships what there is until ctx ends, and gives the directory up: it is
// removed if nothing is left in it, else the next gateway adopts it. No Start or Finish may be running.
func (l *Log) Close(ctx context.Context) error {
	var err error
	l.close.Do(func() { err = l.shutdown(ctx) })
	return err
}

func (l *Log) shutdown(ctx context.Context) error {
	l.spool.refuseStarts()
	close(l.closing)
	select {
	case <-l.shipped:
	case <-ctx.Done():
	}
	l.stop()
	<-l.shipped
	close(l.done)
	l.others.Wait()
	left, err := l.spool.close()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("closing the event log: %d attempts wait in %s for the next gateway", left, l.spool.dir.path))
	}
	return err
}
