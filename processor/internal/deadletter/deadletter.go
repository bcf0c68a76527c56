// Package deadletter puts aside records that cannot be stored, with the cause, so that one of them
// stops neither its partition nor its batch.
package deadletter

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/schemas/topic"
)

// maxValue is how much of a value is kept: the record gets longer by its headers and must still fit.
const maxValue = 512 << 10

// maxOther is how much of a key is kept, and how long the headers may be that are.
const maxOther = 64 << 10

// Letter is a record and why it is here.
type Letter struct {
	Source kafkax.Record
	Cause  string
}

// Hash names what a record says: its time, key and value. Together with the place it tells a record
// from the one that stood there before its topic was made anew.
func Hash(r *kafkax.Record) uint64 {
	h := fnv.New64a()
	var head [16]byte
	binary.BigEndian.PutUint64(head[:8], uint64(r.Time.UnixMilli()))
	binary.BigEndian.PutUint64(head[8:], uint64(len(r.Key)))
	h.Write(head[:])
	h.Write(r.Key)
	h.Write(r.Value)
	return h.Sum64()
}

// Log writes dead letters. Safe for concurrent use.
type Log struct {
	writer *kafkax.Writer
	conn   *chx.Conn
}

// New returns a log over the two connections.
func New(kafka *kafkax.Client, conn *chx.Conn) *Log {
	return &Log{writer: kafka.NewWriter(topic.DeadLetter), conn: conn}
}

// Write puts letters into the dead letter topic and then into the table dead_letters, and returns when
// both have acknowledged all of them. After an error some may stand there already: writing them again
// repeats records in the topic, and nothing in the table.
func (l *Log) Write(ctx context.Context, letters []Letter) error {
	if len(letters) == 0 {
		return nil
	}
	records := make([]kafkax.Record, len(letters))
	for i, letter := range letters {
		records[i] = record(letter)
	}
	if _, err := l.writer.Write(ctx, records); err != nil {
		return fmt.Errorf("writing dead letters: %w", err)
	}
	batch, err := l.conn.PrepareBatch(chx.SyncInsert(ctx), "INSERT INTO dead_letters (topic, kafka_partition, kafka_offset, at, cause, key, value, value_bytes, record_hash)")
	if err != nil {
		return fmt.Errorf("storing dead letters: %w", err)
	}
	defer batch.Close()
	for i, letter := range letters {
		s := letter.Source
		if err := batch.Append(s.Topic, int32(s.Partition), s.Offset, sane(s.Time), letter.Cause, string(s.Key), string(records[i].Value), int64(len(s.Value)), Hash(&s)); err != nil {
			return fmt.Errorf("storing dead letters: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("storing dead letters: %w", err)
	}
	return nil
}

func record(letter Letter) kafkax.Record {
	s := letter.Source
	size := 0
	for _, h := range s.Headers {
		size += len(h.Key) + len(h.Value)
	}
	var headers []kafkax.Header
	if size <= maxOther {
		headers = slices.Clone(s.Headers)
	}
	headers = append(headers,
		kafkax.Header{Key: topic.HeaderDeadCause, Value: []byte(letter.Cause)},
		kafkax.Header{Key: topic.HeaderDeadTopic, Value: []byte(s.Topic)},
		kafkax.Header{Key: topic.HeaderDeadPartition, Value: []byte(strconv.Itoa(s.Partition))},
		kafkax.Header{Key: topic.HeaderDeadOffset, Value: []byte(strconv.FormatInt(s.Offset, 10))})
	return kafkax.Record{Key: s.Key[:min(len(s.Key), maxOther)], Value: s.Value[:min(len(s.Value), maxValue)], Headers: headers, Time: s.Time}
}

// sane keeps a record's time, which anybody can set, within what a partition by day makes sense of.
func sane(t time.Time) time.Time {
	now := time.Now()
	if t.Before(now.AddDate(-1, 0, 0)) || t.After(now.AddDate(0, 0, 2)) {
		return now
	}
	return t
}
