// Package consume reads partitions: where to begin, whether the log is the one that was read before,
// and records into events. It stops a partition rather than pass over a lost range (pipeline.md 10).
package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unsafe"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/partition"
	"turnout/processor/internal/sink"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// fetchLimit bounds the records of a chunk.
const fetchLimit = 4096

// Sink takes chunks in order; see sink.Sink.
type Sink interface {
	Submit(ctx context.Context, c *sink.Chunk) error
}

// Worker reads partitions of the attempts topic. Run may be called for several partitions at once.
type Worker struct {
	Kafka      *kafkax.Client
	ClickHouse *chx.Conn
	Sink       Sink
	Log        *slog.Logger
	Status     *Status
	Generation uint32
	AcceptGap  map[int]int64 // partition -> offset to go on from
	// Skip leaves out records that are known not to count; nil: none.
	Skip func(r *kafkax.Record) bool
}

// Run reads one partition until ctx ends. Whatever goes wrong, it stays: returning would end the
// generation of the whole consumer group.
func (w *Worker) Run(ctx context.Context, p int) {
	w.Status.begin(p)
	defer w.Status.end(p)
	for {
		next, err := w.resume(ctx, p)
		if err == nil {
			err = w.read(ctx, p, next)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		if gap := (*Gap)(nil); errors.As(err, &gap) {
			w.Status.stop(p, gap)
			w.Log.Error("partition stopped: records are missing", "partition", p, "error", gap)
		} else {
			w.Log.Error("partition stopped", "partition", p, "error", err)
		}
		<-ctx.Done()
	}
}

// Standing is how a partition's stored progress and its log fit together.
type Standing struct {
	Stored      sink.Progress
	Known       bool  // whether anything is stored
	First, Next int64 // what the log holds: First .. Next-1
	Gap         *Gap  // nil: the log goes on where the progress ended
}

// next is the offset that the partition goes on from if nothing is missing.
func (at Standing) next() int64 {
	if !at.Known {
		return at.First
	}
	return at.Stored.Offset + 1
}

// Inspect looks at a partition. It tries on until ctx ends.
func (w *Worker) Inspect(ctx context.Context, p int) (Standing, error) {
	var at Standing
	err := sink.Retry(ctx, w.Log, fmt.Sprintf("finding where partition %d goes on", p), func(ctx context.Context) (err error) {
		if at.Stored, at.Known, err = sink.ReadProgress(ctx, w.ClickHouse, w.Generation, p); err != nil {
			return err
		}
		at.First, at.Next, err = w.Kafka.Bounds(ctx, topic.Attempts, p)
		return err
	})
	if err != nil || !at.Known {
		return at, err
	}
	wanted := at.Stored.Offset + 1
	gap := &Gap{Partition: p, Progress: at.Stored.Offset, First: at.First, Next: at.Next}
	switch {
	case at.Next < wanted:
		gap.Cause = LogEndsBefore
	case at.First > wanted:
		gap.Cause, gap.Missing = Expired, [2]int64{wanted, at.First - 1}
	case at.First == wanted:
		return at, nil // the record itself has expired, and nothing after it
	default:
		same, err := w.sameRecord(ctx, p, at.Stored)
		if err != nil || same {
			return at, err
		}
		gap.Cause = OtherLog
	}
	at.Gap = gap
	return at, nil
}

// resume returns the offset to go on from. It tries on until ctx ends; another error is a *Gap.
func (w *Worker) resume(ctx context.Context, p int) (int64, error) {
	at, err := w.Inspect(ctx, p)
	if err != nil {
		return 0, err
	}
	w.Status.Stored(p, at.next())
	if !at.Known {
		w.Log.Info("partition begins", "partition", p, "offset", at.First, "log_end", at.Next)
		return at.First, nil
	}
	wanted := at.next()
	if gap := at.Gap; gap != nil {
		accepted, ok := w.AcceptGap[p]
		// Where the log ends before, new records would bear offsets that were counted.
		if !ok || gap.Cause == LogEndsBefore || accepted < wanted || accepted < at.First || accepted > at.Next {
			return 0, gap
		}
		if err := w.recordGap(ctx, gap, wanted, accepted); err != nil {
			return 0, err
		}
		wanted = accepted
	}
	w.Log.Info("partition goes on", "partition", p, "offset", wanted, "log_end", at.Next)
	return wanted, nil
}

// sameRecord compares the record at the stored offset with what was stored of it.
func (w *Worker) sameRecord(ctx context.Context, p int, stored sink.Progress) (same bool, err error) {
	err = sink.Retry(ctx, w.Log, fmt.Sprintf("comparing the last record of partition %d", p), func(ctx context.Context) error {
		fetcher := w.Kafka.NewFetcher(topic.Attempts, p, stored.Offset)
		defer fetcher.Close()
		for {
			records, err := fetcher.Fetch(ctx, 1)
			if err != nil {
				return err
			}
			if len(records) > 0 {
				same = records[0].Offset == stored.Offset && sink.Hash(records[0].Value) == stored.Hash
				return nil
			}
		}
	})
	return same, err
}

func (w *Worker) recordGap(ctx context.Context, gap *Gap, first, at int64) error {
	w.Log.Warn("going on behind a gap as told", "partition", gap.Partition, "first_missing", first, "last_missing", at-1, "cause", gap.Cause)
	return sink.Retry(ctx, w.Log, "recording an accepted gap", func(ctx context.Context) error {
		return RecordGap(ctx, w.ClickHouse, w.Generation, gap.Partition, first, at-1, gap.Cause)
	})
}

// RecordGap writes down that a generation goes on without the records from first to last.
func RecordGap(ctx context.Context, conn *chx.Conn, generation uint32, p int, first, last int64, cause Cause) error {
	batch, err := conn.PrepareBatch(chx.SyncInsert(ctx), "INSERT INTO sink_gaps (generation, kafka_partition, first_offset, last_offset, cause)")
	if err != nil {
		return err
	}
	defer batch.Close()
	if err := batch.Append(generation, int32(p), first, last, string(cause)); err != nil {
		return err
	}
	return batch.Send()
}

// read submits chunks from next on until ctx ends or something is wrong with the log.
func (w *Worker) read(ctx context.Context, p int, next int64) error {
	state := partition.New()
	fetcher := w.Kafka.NewFetcher(topic.Attempts, p, next)
	defer fetcher.Close()
	for ctx.Err() == nil {
		records, err := w.fetch(ctx, fetcher, p, next)
		if err != nil {
			return err
		}
		for len(records) > 0 {
			if records[0].Offset != next {
				if err := w.hole(ctx, p, next, records); err != nil {
					return err
				}
			}
			run := contiguous(records)
			chunk := w.decode(p, state, records[:run])
			if err := w.Sink.Submit(ctx, chunk); err != nil {
				return err
			}
			records, next = records[run:], chunk.Last+1
			w.Status.read(p, next)
		}
	}
	return nil
}

// fetch returns the next records, or none after a while. It tries on until ctx ends; another error is
// a *Gap.
func (w *Worker) fetch(ctx context.Context, from *kafkax.Fetcher, p int, next int64) (records []kafkax.Record, err error) {
	var lost error
	err = sink.Retry(ctx, w.Log, fmt.Sprintf("reading partition %d", p), func(ctx context.Context) (err error) {
		records, err = from.Fetch(ctx, fetchLimit)
		if errors.Is(err, kafkax.ErrOffsetOutOfRange) {
			lost = err
			return nil
		}
		return err
	})
	if err == nil && lost != nil {
		err = w.lost(p, next, lost)
	}
	return records, err
}

// hole is what to do where the log jumps to the first of records: nothing, if that was accepted.
func (w *Worker) hole(ctx context.Context, p int, next int64, records []kafkax.Record) error {
	at := records[0].Offset
	gap := &Gap{Partition: p, Progress: next - 1, First: at, Next: records[len(records)-1].Offset + 1, Cause: Hole, Missing: [2]int64{next, at - 1}}
	if accepted, ok := w.AcceptGap[p]; !ok || accepted != at {
		return gap
	}
	return w.recordGap(ctx, gap, next, at)
}

// contiguous returns how many records there are before offsets jump.
func contiguous(records []kafkax.Record) int {
	for i := 1; i < len(records); i++ {
		if records[i].Offset != records[i-1].Offset+1 {
			return i
		}
	}
	return len(records)
}

// lost makes a gap of what the fetcher says. Resuming would find it too; this names it at once.
func (w *Worker) lost(p int, next int64, err error) error {
	var out *kafkax.OffsetError
	if !errors.As(err, &out) {
		return err
	}
	gap := &Gap{Partition: p, Progress: next - 1, First: out.First, Next: out.Next, Cause: Expired, Missing: [2]int64{next, out.First - 1}}
	if out.Next < next {
		gap.Cause = LogEndsBefore
	}
	return gap
}

// Between these two every type of time in the tables holds: a DateTime ends in 2106 and begins again
// in 1970, silently, and retention is added to it.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// decode turns records, which are not empty, into a chunk.
func (w *Worker) decode(p int, state *partition.State, records []kafkax.Record) *sink.Chunk {
	c := &sink.Chunk{Partition: p, State: state, Records: make([]partition.Record, 0, len(records)), Sources: make([]*kafkax.Record, 0, len(records))}
	for i := range records {
		r := &records[i]
		if w.Skip != nil && w.Skip(r) {
			continue
		}
		again, err := headers(r)
		if err != nil {
			c.Dead = append(c.Dead, deadletter.Letter{Source: *r, Cause: err.Error()})
			continue
		}
		// Not copied: nobody writes to what was fetched, and it lives as long as the event anyway.
		e, considered, err := attempt.DecodeKeeping(unsafe.String(unsafe.SliceData(r.Value), len(r.Value)))
		if err == nil {
			err = plausible(e)
		}
		if err != nil {
			c.Dead = append(c.Dead, deadletter.Letter{Source: *r, Cause: err.Error()})
			continue
		}
		c.Records = append(c.Records, partition.Record{Event: e, Considered: considered, Offset: r.Offset, Replayed: again})
		c.Sources = append(c.Sources, r)
	}
	last := &records[len(records)-1]
	c.Last, c.Hash, c.Newest = last.Offset, sink.Hash(last.Value), last.Time
	return c
}

// plausible refuses times that no partition by day should be made for.
func plausible(e *attempt.Event) error {
	if e.StartedAt.Before(earliest) || e.StartedAt.After(latest) {
		return fmt.Errorf("attempt record, field started_at: %s is out of range", e.StartedAt.Format(time.RFC3339))
	}
	if !e.FinishedAt.IsZero() && (e.FinishedAt.Before(earliest) || e.FinishedAt.After(latest)) {
		return fmt.Errorf("attempt record, field finished_at: %s is out of range", e.FinishedAt.Format(time.RFC3339))
	}
	return nil
}

// headers says whether a record is marked as sent again. One that says it is of another type is
// refused, whatever its value looks like; one without a type is judged by its value.
func headers(r *kafkax.Record) (again bool, err error) {
	for _, h := range r.Headers {
		switch h.Key {
		case topic.HeaderReplayed:
			again = string(h.Value) == "1"
		case topic.HeaderType:
			if string(h.Value) != topic.TypeAttemptFinished {
				return false, fmt.Errorf("record of type %.100q: only %s belongs here", h.Value, topic.TypeAttemptFinished)
			}
		}
	}
	return again, nil
}
