package kafkax

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	fetchWait = 250 * time.Millisecond
	// fetchBytes is compressed, and twenty times that in memory while the records wait; a larger batch is
	// still returned whole.
	fetchBytes = 256 << 10
	// maxEmpty is how many answers without a record are believed although the log goes on.
	maxEmpty = 20
)

// OffsetError says that the wanted offset is not in the log: what stood there has expired or been
// removed, or the log ends before it (it was lost or made anew).
type OffsetError struct {
	Topic       string
	Partition   int
	Offset      int64 // wanted
	First, Next int64 // what the log holds: First .. Next-1
}

// ErrOffsetOutOfRange is what errors.Is finds in an *OffsetError.
var ErrOffsetOutOfRange = errors.New("offset out of range")

func (e *OffsetError) Error() string {
	return fmt.Sprintf("%s/%d: offset %d is not in the log, which begins at %d and ends before %d", e.Topic, e.Partition, e.Offset, e.First, e.Next)
}

// Is makes errors.Is(err, ErrOffsetOutOfRange) hold.
func (e *OffsetError) Is(target error) bool { return target == ErrOffsetOutOfRange }

// Fetcher reads one partition in order of offset. Not safe for concurrent use.
type Fetcher struct {
	client    *Client
	topic     string
	partition int
	offset    int64 // next to ask the broker for
	ready     []Record
	slab      []byte // where keys and values are copied to
	empty     int    // answers in a row without a record although the log goes on
}

// NewFetcher returns a reader that begins at offset. Nothing is asked yet.
func (c *Client) NewFetcher(topic string, partition int, offset int64) *Fetcher {
	return &Fetcher{client: c, topic: topic, partition: partition, offset: offset}
}

// Fetch returns up to limit records. It waits about 250 ms for the first and returns none, without an
// error, if there is none. It never moves past a lost range: where the next offset is not in the log
// the error is an *OffsetError, now and at every further call. Within the log offsets may jump only
// where compaction removed records or a transaction marker stands. After any other error the next call
// tries the same place again.
func (f *Fetcher) Fetch(ctx context.Context, limit int) ([]Record, error) {
	if len(f.ready) == 0 {
		if err := f.fill(ctx); err != nil {
			return nil, err
		}
	}
	n := min(limit, len(f.ready))
	out := f.ready[:n:n]
	f.ready = f.ready[n:]
	return out, nil
}

// Close lets go of what was read ahead.
func (f *Fetcher) Close() { f.ready, f.slab = nil, nil }

func (f *Fetcher) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := f.client.client.Fetch(ctx, &kafka.FetchRequest{
		Topic:     f.topic,
		Partition: f.partition,
		Offset:    f.offset,
		MinBytes:  1,
		MaxBytes:  fetchBytes,
		MaxWait:   fetchWait,
	})
	if err == nil {
		err = answer.Error
	}
	if errors.Is(err, kafka.OffsetOutOfRange) || err == nil && answer.LogStartOffset > f.offset {
		return f.outOfRange(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("reading %s/%d at offset %d: %w", f.topic, f.partition, f.offset, err)
	}
	next, err := f.decode(answer.Records)
	if err != nil {
		f.ready = nil
		return fmt.Errorf("reading %s/%d at offset %d: %w", f.topic, f.partition, f.offset, err)
	}
	if next == f.offset && answer.HighWatermark > f.offset {
		if f.empty++; f.empty >= maxEmpty {
			return fmt.Errorf("reading %s/%d: no record can be read at offset %d although the log goes on to %d; is a batch there damaged?", f.topic, f.partition, f.offset, answer.HighWatermark)
		}
		return nil
	}
	f.empty, f.offset = 0, next
	return nil
}

func (f *Fetcher) outOfRange(ctx context.Context, cause error) error {
	first, next, err := f.client.Bounds(ctx, f.topic, f.partition)
	if err != nil {
		return fmt.Errorf("reading %s/%d at offset %d: %w", f.topic, f.partition, f.offset, errors.Join(cause, err))
	}
	if first <= f.offset && f.offset <= next {
		// A leader that has only just taken over may say so of offsets it is about to learn of.
		return fmt.Errorf("reading %s/%d at offset %d: %w; the log has it now", f.topic, f.partition, f.offset, kafka.LeaderNotAvailable)
	}
	return &OffsetError{Topic: f.topic, Partition: f.partition, Offset: f.offset, First: first, Next: next}
}

// decode appends what is at or above the wanted offset to ready and returns the offset to go on from.
func (f *Fetcher) decode(set kafka.RecordReader) (int64, error) {
	next := f.offset
	batches := []kafka.RecordReader{set}
	if stream, ok := set.(*protocol.RecordStream); ok {
		batches = stream.Records
	}
	for _, batch := range batches {
		_, control := batch.(*protocol.ControlBatch)
		seen := false
		for {
			r, err := batch.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return next, err
			}
			record, err := f.record(r)
			if err != nil {
				return next, err
			}
			seen = true
			if record.Offset < next {
				continue // brokers answer with whole batches
			}
			next = record.Offset + 1
			if !control {
				f.ready = append(f.ready, record)
			}
		}
		// Compaction may leave an empty batch behind. Its length is not handed out, so step through it.
		if b, ok := batch.(*protocol.RecordBatch); ok && !seen && b.BaseOffset <= next {
			next++
		}
	}
	return next, nil
}

func (f *Fetcher) record(r *kafka.Record) (Record, error) {
	key, err := f.bytes(r.Key)
	if err != nil {
		return Record{}, err
	}
	value, err := f.bytes(r.Value)
	if err != nil {
		return Record{}, err
	}
	out := Record{Topic: f.topic, Partition: f.partition, Offset: r.Offset, Key: key, Value: value, Time: r.Time}
	if len(r.Headers) > 0 {
		out.Headers = make([]Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = Header{Key: h.Key, Value: h.Value}
		}
	}
	return out, nil
}

// slabSize is how many bytes of keys and values are allocated at once. Records that are fetched
// together are let go together, so that a slab hardly outlives what it was made for; whoever keeps
// one of them for long keeps a copy.
const slabSize = 64 << 10

// bytes copies what b holds, as its pages are used again, and closes it. That of nil is nil. No byte is
// handed out twice, so that what was handed out never changes.
func (f *Fetcher) bytes(b kafka.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	out := f.room(b.Len())
	_, err := io.ReadFull(b, out)
	return out, err
}

// room returns n bytes of the slab, or of their own where they would leave much of it unused.
func (f *Fetcher) room(n int) []byte {
	if n > slabSize/8 {
		return make([]byte, n)
	}
	if f.slab == nil || cap(f.slab)-len(f.slab) < n {
		f.slab = make([]byte, 0, slabSize)
	}
	begin := len(f.slab)
	f.slab = f.slab[:begin+n]
	return f.slab[begin : begin+n : begin+n]
}
