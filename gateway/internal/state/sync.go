package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/topic"
)

const (
	writeBatch = 1000
	readBatch  = 2000
	// gather is how long a write waits for more records: pins are seen by other nodes within 1 s.
	gather     = 50 * time.Millisecond
	retryFirst = 250 * time.Millisecond
	retryMost  = 3 * time.Second
)

// Run follows the state topic and writes what this node has to say, until ctx ends. What could not
// be written by then is tried once more for a moment. It never gives up on a broker that is away.
func (s *Store) Run(ctx context.Context, client *kafkax.Client) {
	var wg sync.WaitGroup
	wg.Go(func() { s.follow(ctx, client) })
	wg.Go(func() { s.write(ctx, client) })
	wg.Go(func() { s.announce(ctx) })
	wg.Wait()
}

// announce keeps the fingerprint of the hash key in the log.
func (s *Store) announce(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last time.Time
	for {
		if s.Ready() == nil && time.Since(last) > fingerprintRenewal {
			last = time.Now()
			s.publish(record{Kind: kindHashKey, ID: fingerprintID, Fingerprint: s.fingerprint()})
			tick.Reset(time.Minute)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow reads the topic from its beginning and stays at its end. After an outage it goes on where it
// was: records from before would put back what later ones have changed.
func (s *Store) follow(ctx context.Context, client *kafkax.Client) {
	wait := retryFirst
	next := int64(-1)
	trouble := outage{what: "following the state topic", log: s.cfg.Log}
	for ctx.Err() == nil {
		err := s.tail(ctx, client, &next, &trouble)
		if ctx.Err() != nil {
			return
		}
		why := fmt.Sprintf("reading the state topic: %v", err)
		s.reading.Store(&why)
		trouble.failed(s.cfg.Now(), err)
		pause(ctx, wait)
		wait = min(2*wait, retryMost)
	}
}

// tail reads from *next on, or from the beginning where the log does not hold that, and keeps it up to
// date.
func (s *Store) tail(ctx context.Context, client *kafkax.Client, next *int64, trouble *outage) error {
	first, end, err := client.Bounds(ctx, topic.State, 0)
	if err != nil {
		return fmt.Errorf("finding its ends: %w", err)
	}
	if *next < first || *next > end {
		*next = first
	}
	f := client.NewFetcher(topic.State, 0, *next)
	defer f.Close()
	for {
		// A compacted log has holes, so that what was read is no measure; an empty fetch at the end is.
		if *next >= end {
			s.read.Store(true)
		}
		records, err := f.Fetch(ctx, readBatch)
		if err != nil {
			return err
		}
		s.reading.Store(nil)
		trouble.over(s.cfg.Now())
		if len(records) == 0 && !s.read.Load() {
			s.read.Store(true)
		}
		for _, r := range records {
			*next = r.Offset + 1
			if len(r.Value) == 0 { // a key that somebody deleted
				s.erase(string(r.Key), r.Offset)
				continue
			}
			rec, err := decode(r.Value)
			if err != nil {
				s.refused.Add(1)
				s.cfg.Log.Warn("state record left out", "offset", r.Offset, "error", err)
				continue
			}
			s.apply(rec, r.Offset)
		}
	}
}

// write hands queued records to Kafka in batches.
func (s *Store) write(ctx context.Context, client *kafkax.Client) {
	w := client.NewWriter(topic.State)
	wait := retryFirst
	trouble := outage{what: "writing the state topic", log: s.cfg.Log}
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = s.flush(last, w)
			cancel()
			return
		case <-s.kick:
		}
		pause(ctx, gather)
		for ctx.Err() == nil {
			err := s.flush(ctx, w)
			if err == nil {
				trouble.over(s.cfg.Now())
				wait = retryFirst
				break
			}
			if ctx.Err() == nil {
				trouble.failed(s.cfg.Now(), err)
			}
			pause(ctx, wait)
			wait = min(2*wait, retryMost)
		}
	}
}

// flush writes everything queued; what fails stays queued.
func (s *Store) flush(ctx context.Context, w *kafkax.Writer) error {
	for {
		batch, seqs := s.take()
		if len(batch) == 0 {
			return nil
		}
		acks, err := w.Write(ctx, batch)
		if len(acks) != len(batch) {
			acks = nil
			err = errors.Join(err, errors.New("not every record was answered"))
		}
		s.settle(batch, seqs, acks)
		if err != nil {
			return err
		}
	}
}

func (s *Store) take() ([]kafkax.Record, []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), writeBatch)
	batch, seqs := make([]kafkax.Record, 0, n), make([]uint64, 0, n)
	now := s.cfg.Now()
	for _, key := range s.queue[:n] {
		p := s.pending[key]
		p.queued = false
		if !p.record.live(now) {
			delete(s.pending, key) // it waited for a broker longer than it was good for
			continue
		}
		batch = append(batch, kafkax.Record{Topic: topic.State, Key: []byte(key), Value: p.record.encode(), Time: now})
		seqs = append(seqs, p.record.Seq)
	}
	s.queue = append(s.queue[:0], s.queue[n:]...)
	return batch, seqs
}

// settle notes where acknowledged records stand and queues the rest again; acks nil: none was.
func (s *Store) settle(batch []kafkax.Record, seqs []uint64, acks []kafkax.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range batch {
		key := string(r.Key)
		p := s.pending[key]
		if p == nil || p.record.Seq != seqs[i] {
			continue // seen in the log already, or overtaken by a newer one
		}
		if acks != nil && acks[i].Err == nil {
			p.offset = acks[i].Offset
			continue
		}
		if !p.queued {
			p.queued = true
			s.queue = append(s.queue, key)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
