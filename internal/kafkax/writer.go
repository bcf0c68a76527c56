package kafkax

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/segmentio/kafka-go"
)

// maxBatchBytes bounds the uncompressed size of one produce request for one partition.
const maxBatchBytes = maxMessageBytes / 2

// Ack is what became of one record: its place in the log, or why it has none. After an error the
// record may stand in the log all the same (the answer may have been lost); whoever sends it again
// must mark it as possibly double.
type Ack struct {
	Partition int
	Offset    int64
	Err       error
}

// Writer writes to one topic. Safe for concurrent use; the order between concurrent calls is open.
type Writer struct {
	client *Client
	topic  string
}

// NewWriter returns a writer for a topic. Nothing needs to be closed.
func (c *Client) NewWriter(topic string) *Writer { return &Writer{client: c, topic: topic} }

// Write sends the records once, in order within each partition, and waits until every in-sync replica
// has them. The partition follows from the key as in Kafka's own clients (murmur2). All records of a
// partition travel in one zstd batch, in several one after the other if they exceed 4 MiB; where one
// fails, those behind it in its partition are not sent. acks has one entry for each record, by index.
// err is nil only if all are acknowledged. Nothing is ever sent again by itself; the call takes at
// most about ten seconds per batch.
func (w *Writer) Write(ctx context.Context, records []Record) (acks []Ack, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	acks = make([]Ack, len(records))
	count, err := w.client.Partitions(ctx, w.topic)
	if err != nil {
		for i := range acks {
			acks[i] = Ack{Partition: -1, Offset: -1, Err: err}
		}
		return acks, fmt.Errorf("writing to %s: %w", w.topic, err)
	}

	ids := make([]int, count)
	for i := range ids {
		ids[i] = i
	}
	byPartition := make([][]int, count) // indices into records
	for i := range records {
		p := kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: records[i].Key}, ids...)
		byPartition[p] = append(byPartition[p], i)
	}
	var wg sync.WaitGroup
	for partition, indices := range byPartition {
		if len(indices) > 0 {
			wg.Go(func() { w.writePartition(ctx, partition, records, indices, acks) })
		}
	}
	wg.Wait()

	failed := 0
	for _, ack := range acks {
		if ack.Err != nil {
			if failed == 0 {
				err = ack.Err
			}
			failed++
		}
	}
	if failed > 0 {
		return acks, fmt.Errorf("writing to %s: %d of %d records: %w", w.topic, failed, len(records), err)
	}
	return acks, nil
}

func (w *Writer) writePartition(ctx context.Context, partition int, records []Record, indices []int, acks []Ack) {
	for len(indices) > 0 {
		n, size := 0, 0
		for n < len(indices) {
			size += weight(&records[indices[n]])
			if n > 0 && size > maxBatchBytes {
				break
			}
			n++
		}
		if err := w.produce(ctx, partition, records, indices[:n], acks); err != nil {
			for _, i := range indices[n:] {
				acks[i] = Ack{Partition: partition, Offset: -1, Err: err}
			}
			return
		}
		indices = indices[n:]
	}
}

// weight is about what a record takes in an uncompressed batch.
func weight(r *Record) int {
	size := 24 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += 4 + len(h.Key) + len(h.Value)
	}
	return size
}

// produce sends one batch and fills in the acks of its records. The error is that of the batch.
func (w *Writer) produce(ctx context.Context, partition int, records []Record, indices []int, acks []Ack) error {
	batch := make([]kafka.Record, len(indices))
	for n, i := range indices {
		r := &records[i]
		batch[n] = kafka.Record{Time: r.Time, Key: kafka.NewBytes(r.Key), Value: kafka.NewBytes(r.Value)}
		if len(r.Headers) > 0 {
			batch[n].Headers = make([]kafka.Header, len(r.Headers))
			for k, h := range r.Headers {
				batch[n].Headers[k] = kafka.Header{Key: h.Key, Value: h.Value}
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := w.client.client.Produce(ctx, &kafka.ProduceRequest{
		Topic:        w.topic,
		Partition:    partition,
		RequiredAcks: kafka.RequireAll,
		Records:      kafka.NewRecordReader(batch...),
		Compression:  kafka.Zstd,
	})
	if err == nil {
		err = answer.Error
	}
	if err == nil && len(answer.RecordErrors) > 0 {
		err = errors.New("the broker refused records without refusing their batch")
	}
	for n, i := range indices {
		acks[i] = Ack{Partition: partition, Offset: -1, Err: err}
		switch {
		case err == nil:
			acks[i].Offset = answer.BaseOffset + int64(n)
		case answer != nil && answer.RecordErrors[n] != nil:
			acks[i].Err = fmt.Errorf("%w: %w", err, answer.RecordErrors[n])
		}
	}
	return err
}

// IsTooLarge says that the broker will never take this record, however often it is sent.
func IsTooLarge(err error) bool { return errors.Is(err, kafka.MessageSizeTooLarge) }
