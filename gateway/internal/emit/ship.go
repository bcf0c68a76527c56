package emit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
)

// Writer sends records to one topic: each once, waiting for Kafka's acknowledgement, which it gives
// for each record by index. An error says that at least one has none. Its calls may overlap.
type Writer interface {
	Write(ctx context.Context, records []kafkax.Record) ([]kafkax.Ack, error)
}

const (
	shipRecords = 1000                  // in one round
	linger      = 20 * time.Millisecond // a round waits for company at most
	pauseFirst  = 50 * time.Millisecond // after a round that failed, doubling
	pauseMost   = 2 * time.Second
)

// sender sends records of both topics. Not safe for concurrent use.
type sender struct {
	attempts, requests Writer
	log                *slog.Logger
	metrics            *metrics
	limit              int // records in a round; less after Kafka found a batch too large
	failing            bool
	batch              batch
}

func newSender(attempts, requests Writer, log *slog.Logger, m *metrics) *sender {
	return &sender{attempts: attempts, requests: requests, log: log, metrics: m, limit: shipRecords}
}

// acknowledged is called with each record Kafka has, and where.
type acknowledged func(r *record, ack kafkax.Ack)

// send sends list once and returns what has to be sent again, marked.
func (s *sender) send(ctx context.Context, list []*record, done acknowledged) (again []*record) {
	var attempts, requests []*record
	for _, r := range list {
		if r.kind == kindRefusal {
			requests = append(requests, r)
		} else {
			attempts = append(attempts, r)
		}
	}
	again = s.write(ctx, s.attempts, attempts, again, done)
	again = s.write(ctx, s.requests, requests, again, done)
	return again
}

func (s *sender) write(ctx context.Context, w Writer, list, again []*record, done acknowledged) []*record {
	if len(list) == 0 {
		return again
	}
	s.batch.reset(len(list))
	for _, r := range list {
		if r.replayed {
			s.metrics.replayed.Inc()
		}
		s.batch.add(r)
	}
	acks, err := w.Write(ctx, s.batch.records)
	now := time.Now()
	for i, r := range list {
		if i < len(acks) && acks[i].Err == nil {
			s.metrics.shipped.Inc()
			if !r.finished.IsZero() {
				s.metrics.latency.Observe(now.Sub(r.finished).Seconds())
			}
			done(r, acks[i])
			continue
		}
		r.replayed = true
		again = append(again, r)
	}
	s.outcome(ctx, len(list), err)
	return again
}

func (s *sender) outcome(ctx context.Context, sent int, err error) {
	if err == nil {
		if s.failing {
			s.log.Info("kafka takes events again")
		}
		s.failing, s.limit = false, min(2*s.limit, shipRecords)
		return
	}
	s.batch = batch{} // a request that was given up may be read still
	if kafkax.IsTooLarge(err) {
		s.limit = max(1, sent/2)
	}
	if !s.failing && ctx.Err() == nil {
		s.log.Warn("kafka does not take events: they wait in the spool", "error", err)
	}
	s.failing = ctx.Err() == nil
}

// shipper carries ends from the spool to Kafka and nobody waits for it. What it holds in memory is
// bounded: one round, and the spool's queue.
type shipper struct {
	*sender
	spool  *spool
	onAck  atomic.Pointer[func(partition int, offset int64, e *attempt.Event)]
	oldest atomic.Int64 // unix nanoseconds of the first record of the round; 0: none
}

// run ships until closing is closed and the spool is drained, or ctx ends.
func (s *shipper) run(ctx context.Context, closing <-chan struct{}) {
	var again []*record
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if len(again) == 0 && !s.await(ctx, closing) {
			return
		}
		var acked int
		again, acked = s.round(ctx, again)
		switch {
		case len(again) == 0:
			pause = 0
			continue
		case acked > 0:
			pause = pauseFirst
		default:
			pause = min(max(pauseFirst, 2*pause), pauseMost)
		}
		sleep(ctx, pause)
	}
}

// round sends what has to be sent again and as much more as a round holds, once. It returns what is
// to be sent again now, and how many records Kafka has acknowledged.
func (s *shipper) round(ctx context.Context, again []*record) (rest []*record, acked int) {
	n := min(len(again), s.limit)
	held := again[n:]
	list := s.withoutDropped(append(again[:n:n], s.spool.take(s.limit-n)...))
	s.hold(list)
	var done []*record
	rest = s.send(ctx, list, func(r *record, ack kafkax.Ack) {
		done = append(done, r)
		s.tell(r, ack)
	})
	if len(done) > 0 {
		s.spool.acked(done)
	}
	if len(rest) == 0 { // else a request that was given up may be read still
		for _, r := range done {
			r.free()
		}
	}
	rest = append(rest, held...)
	if len(rest) == 0 {
		s.hold(nil)
	}
	return rest, len(done)
}

// await returns true when there is something to ship, after waiting a little for more of it; false
// when there will be nothing any more.
func (s *shipper) await(ctx context.Context, closing <-chan struct{}) bool {
	for {
		queued, any := s.spool.pending()
		if queued >= shipRecords || any && queued == 0 { // a full round, or a backlog on the disk
			return true
		}
		select {
		case <-closing:
			return any
		default:
		}
		if any {
			timer := time.NewTimer(linger)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-s.spool.full:
			case <-closing:
			case <-ctx.Done():
			}
			return ctx.Err() == nil
		}
		select {
		case <-s.spool.wake:
		case <-closing:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *shipper) tell(r *record, ack kafkax.Ack) {
	if f := s.onAck.Load(); f != nil && r.event != nil {
		(*f)(ack.Partition, ack.Offset, r.event)
	}
}

// withoutDropped leaves out what a full spool has dropped meanwhile.
func (s *shipper) withoutDropped(list []*record) []*record {
	s.spool.mu.Lock()
	defer s.spool.mu.Unlock()
	kept := list[:0]
	for _, r := range list {
		if r.seg == nil || !r.seg.gone {
			kept = append(kept, r)
		}
	}
	return kept
}

func (s *shipper) hold(round []*record) {
	if len(round) == 0 {
		s.oldest.Store(0)
		return
	}
	s.oldest.Store(round[0].finished.UnixNano())
}

func (s *shipper) age() time.Duration {
	if at := s.oldest.Load(); at != 0 {
		return max(0, time.Since(time.Unix(0, at)))
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
