// Package sink stores what the workers of a process read: raw rows first, then buckets and progress
// as one block (pipeline.md 7 to 9). One insert for the whole process, once a second or sooner when
// it is full.
package sink

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/partition"
)

// Chunk is a run of records of one partition, without a gap: what was decoded, and what could not be.
type Chunk struct {
	Partition int
	State     *partition.State // of the worker that read it; the sink alone touches it
	Records   []partition.Record
	Sources   []*kafkax.Record // of Records, by index
	Dead      []deadletter.Letter
	Last      int64  // offset of the last record of the run, decoded or not
	Hash      uint64 // Hash of its value
	Newest    time.Time
}

// Letters takes what cannot be stored. Write returns when it is safe; an error means that it may be
// written again.
type Letters interface {
	Write(ctx context.Context, letters []deadletter.Letter) error
}

// Config bounds batches and says what is kept.
type Config struct {
	Generation uint32
	MaxRows    int
	MaxDelay   time.Duration
	Slots      time.Duration // how long slots are kept
	Usage      time.Duration // how long hours are kept
	// RawFrom leaves the raw rows of a partition's records below an offset alone, and their dead
	// letters: a replay only counts what was stored before.
	RawFrom map[int]int64
	// At is called at named points, for tests that stop the process there; nil in earnest.
	At func(point string)
}

// Sink takes chunks and stores them. Submit may be called by many goroutines, Run by one.
type Sink struct {
	cfg     Config
	conn    *chx.Conn
	raw     *chx.Conn
	letters Letters
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	in      chan *Chunk
	done    chan struct{}
	columns *columns                        // of prepare
	stored  func(partition int, next int64) // progress that is safe
}

// New returns a sink; Run makes it work. Raw rows go through raw, everything else through conn: a
// connection keeps buffers as large as the largest insert it sent, and a pool hands them out in turn,
// so that in one pool all of them would end up with some 50 MB. stored is told of every partition's
// progress once it is safe, from Run's goroutine: it must not block.
func New(cfg Config, conn, raw *chx.Conn, letters Letters, log *slog.Logger, metrics *Metrics, now func() time.Time, stored func(partition int, next int64)) *Sink {
	return &Sink{cfg: cfg, conn: conn, raw: raw, letters: letters, log: log, metrics: metrics, now: now, stored: stored,
		in: make(chan *Chunk), done: make(chan struct{}), columns: newColumns()}
}

// Submit hands a chunk over and returns when the sink has taken it, which is before it is stored. It
// blocks while the sink is busy with a full batch. Chunks of a partition must come in order. The
// error is that of ctx, or says that the sink has ended.
func (s *Sink) Submit(ctx context.Context, c *Chunk) error {
	select {
	case s.in <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return context.Canceled
	}
}

// Run stores batches until intake ends; then it takes no more, stores what it has and returns. While
// ClickHouse is away it waits and tries on, until hard ends: what is not stored then is not lost, as
// the next owner of the partition goes on from the stored progress.
//
// One batch is made ready while the one before is being stored: both sides of the connection work.
func (s *Sink) Run(intake, hard context.Context) {
	defer close(s.done)
	ready := make(chan *prepared)
	var collecting sync.WaitGroup
	collecting.Go(func() {
		defer close(ready)
		for intake.Err() == nil {
			chunks := s.collect(intake)
			if len(chunks) == 0 {
				return
			}
			batch := s.prepare(hard, merge(chunks))
			select {
			case ready <- batch:
			case <-hard.Done():
				batch.abort()
				return
			}
		}
	})
	defer collecting.Wait()
	for batch := range ready {
		if err := s.store(hard, batch); err != nil {
			s.log.Warn("a batch was given up while stopping; its partitions go on before it", "partitions", len(batch.chunks), "error", err)
		}
	}
}

// collect waits for a first chunk and then for more, up to MaxRows or MaxDelay.
func (s *Sink) collect(ctx context.Context) []*Chunk {
	var batch []*Chunk
	rows := 0
	take := func(c *Chunk) {
		batch = append(batch, c)
		rows += len(c.Records) + len(c.Dead) // dead letters take room and time too
	}
	select {
	case c := <-s.in:
		take(c)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(s.cfg.MaxDelay)
	defer timer.Stop()
	for rows < s.cfg.MaxRows {
		select {
		case c := <-s.in:
			take(c)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// store makes a batch durable. Every step may run again after a crash anywhere.
func (s *Sink) store(ctx context.Context, batch *prepared) error {
	started := time.Now()
	s.at("batch taken")
	byPartition := batch.chunks
	var dead []deadletter.Letter
	for _, c := range byPartition {
		for _, letter := range c.Dead {
			if letter.Source.Offset >= s.cfg.RawFrom[c.Partition] {
				dead = append(dead, letter)
			}
		}
	}
	refused, err := s.storeRaw(ctx, batch)
	if err != nil {
		return err
	}
	dead = append(dead, refused...)
	s.at("raw stored")
	if len(dead) > 0 {
		if err := s.retry(ctx, "dead letters", func(ctx context.Context) error { return s.letters.Write(ctx, dead) }); err != nil {
			return err
		}
		s.metrics.deadLetters(dead)
	}
	s.at("dead letters written")
	if err := s.storeFolds(ctx, byPartition); err != nil {
		return err
	}
	s.at("folds stored")
	for _, c := range byPartition {
		s.stored(c.Partition, c.Last+1)
	}
	s.metrics.batch(byPartition, time.Since(started), s.now())
	return nil
}

// merge joins the chunks of each partition; those of a state that was read anew meanwhile stay apart.
func merge(batch []*Chunk) []*Chunk {
	var out []*Chunk
	for _, c := range batch {
		i := slices.IndexFunc(out, func(have *Chunk) bool { return have.State == c.State })
		if i < 0 {
			joined := *c
			out = append(out, &joined)
			continue
		}
		have := out[i]
		have.Records = append(have.Records, c.Records...)
		have.Sources = append(have.Sources, c.Sources...)
		have.Dead = append(have.Dead, c.Dead...)
		have.Last, have.Hash, have.Newest = c.Last, c.Hash, c.Newest
	}
	return out
}

func (s *Sink) at(point string) {
	if s.cfg.At != nil {
		s.cfg.At(point)
	}
}

const (
	firstPause     = 100 * time.Millisecond
	longestPause   = 3 * time.Second
	attemptTimeout = time.Minute
)

// retry does something until it succeeds or ctx ends. Errors are logged when they change.
func (s *Sink) retry(ctx context.Context, what string, do func(ctx context.Context) error) error {
	return Retry(ctx, s.log, what, func(ctx context.Context) error {
		err := do(ctx)
		if err != nil {
			s.metrics.failures.WithLabelValues(what).Inc()
		}
		return err
	})
}

// Retry does something until it succeeds, each time for at most a minute, or until ctx ends, and then
// returns the last error. What goes wrong is logged when it changes.
func Retry(ctx context.Context, log *slog.Logger, what string, do func(ctx context.Context) error) error {
	complained, pause := "", firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := do(attempt)
		cancel()
		if err == nil {
			if complained != "" {
				log.Info("works again", "what", what)
			}
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if complained != err.Error() {
			complained = err.Error()
			log.Warn("failed, trying on", "what", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}
