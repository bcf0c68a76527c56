package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/processor/internal/deadletter"
	"turnout/schemas/attempt"
)

// Unstored is a record of the topic that is neither a row nor a dead letter.
type Unstored struct {
	Partition int
	Offset    int64
	What      string // its event id, or why it cannot be read
	Row       int64  // the offset that its row bears, which is too high; -1: it has none
}

func (u Unstored) String() string {
	text := fmt.Sprintf("record %d of partition %d (%s) is neither a row nor a dead letter", u.Offset, u.Partition, u.What)
	if u.Row >= 0 {
		text = fmt.Sprintf("record %d of partition %d (%s) has a row that says offset %d, which is not its lowest", u.Offset, u.Partition, u.What, u.Row)
	}
	return text
}

// Range is what is looked at of one partition: First to Last, both included.
type Range struct {
	Partition   int
	First, Last int64
}

// chunk is how many records are looked up at once.
const chunk = 5000

// Topic reads a range of a topic and looks up every record: it must stand in attempts with an offset
// that is not higher than its own, or among the dead letters. Records whose attempt began before
// oldest have no rows any more and are passed over. It returns how many were looked up and at most
// 100 that are not stored.
func Topic(ctx context.Context, kafka *kafkax.Client, conn *chx.Conn, topic string, at Range, oldest time.Time) (looked int64, missing []Unstored, err error) {
	fetcher := kafka.NewFetcher(topic, at.Partition, at.First)
	defer fetcher.Close()
	var held []kafkax.Record
	for next := at.First; next <= at.Last; {
		records, err := fetcher.Fetch(ctx, chunk-len(held))
		if err != nil {
			return looked, missing, err
		}
		if len(records) > 0 {
			next = records[len(records)-1].Offset + 1
		}
		held = append(held, slices.DeleteFunc(records, func(r kafkax.Record) bool { return r.Offset > at.Last })...)
		if len(held) < chunk && next <= at.Last {
			continue
		}
		n, unstored, err := lookUp(ctx, conn, topic, at.Partition, held, oldest)
		if err != nil {
			return looked, missing, err
		}
		looked += n
		missing = append(missing, unstored[:min(len(unstored), 100-len(missing))]...)
		held = held[:0]
	}
	return looked, missing, nil
}

func lookUp(ctx context.Context, conn *chx.Conn, topic string, p int, records []kafkax.Record, oldest time.Time) (looked int64, missing []Unstored, err error) {
	var ids, projects []string
	var first, last time.Time
	events := make([]*attempt.Event, len(records))
	for i := range records {
		e, err := attempt.Decode(records[i].Value)
		if err != nil {
			continue
		}
		if events[i] = e; e.StartedAt.Before(oldest) {
			continue
		}
		ids = append(ids, e.EventID)
		if !slices.Contains(projects, e.ProjectID) {
			projects = append(projects, e.ProjectID)
		}
		if first.IsZero() || e.StartedAt.Before(first) {
			first = e.StartedAt
		}
		if e.StartedAt.After(last) {
			last = e.StartedAt
		}
	}
	rows, err := lowest(ctx, conn, p, projects, ids, first, last)
	if err != nil {
		return 0, nil, err
	}
	for i := range records {
		r, e := &records[i], events[i]
		if e != nil && e.StartedAt.Before(oldest) {
			continue
		}
		looked++
		one := Unstored{Partition: p, Offset: r.Offset, What: "it cannot be read", Row: -1}
		if e != nil {
			one.What = "event " + e.EventID
			if offset, ok := rows[e.EventID]; ok {
				if offset <= r.Offset {
					continue
				}
				one.Row = offset
			}
		}
		missing = append(missing, one)
	}
	return exceptDead(ctx, conn, topic, p, records, looked, missing)
}

// lowest returns the lowest stored offset of each event that is stored.
func lowest(ctx context.Context, conn *chx.Conn, p int, projects, ids []string, first, last time.Time) (map[string]int64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx = chx.WithSettings(ctx, chx.Settings{"max_query_size": 16 << 20})
	found, err := conn.Query(ctx, "SELECT event_id, min(kafka_offset) FROM attempts WHERE kafka_partition = ? AND project_id IN (?) AND started_at >= fromUnixTimestamp64Micro(?) AND started_at <= fromUnixTimestamp64Micro(?) AND event_id IN (?) GROUP BY event_id",
		int32(p), projects, first.UnixMicro(), last.UnixMicro(), ids)
	if err != nil {
		return nil, fmt.Errorf("looking up %d events: %w", len(ids), err)
	}
	defer found.Close()
	rows := make(map[string]int64, len(ids))
	for found.Next() {
		var id string
		var offset int64
		if err := found.Scan(&id, &offset); err != nil {
			return nil, fmt.Errorf("looking up events: %w", err)
		}
		rows[id] = offset
	}
	return rows, found.Err()
}

// exceptDead takes those out that are dead letters.
func exceptDead(ctx context.Context, conn *chx.Conn, topic string, p int, records []kafkax.Record, looked int64, missing []Unstored) (int64, []Unstored, error) {
	if len(missing) == 0 {
		return looked, nil, nil
	}
	found, err := conn.Query(ctx, "SELECT kafka_offset, record_hash FROM dead_letters WHERE topic = ? AND kafka_partition = ? AND kafka_offset BETWEEN ? AND ?", topic, int32(p), missing[0].Offset, missing[len(missing)-1].Offset)
	if err != nil {
		return 0, nil, fmt.Errorf("looking up dead letters: %w", err)
	}
	defer found.Close()
	type letter struct {
		offset int64
		hash   uint64
	}
	dead := map[letter]bool{}
	for found.Next() {
		var l letter
		if err := found.Scan(&l.offset, &l.hash); err != nil {
			return 0, nil, fmt.Errorf("looking up dead letters: %w", err)
		}
		dead[l] = true
	}
	hashes := make(map[int64]uint64, len(missing))
	for i := range records {
		hashes[records[i].Offset] = deadletter.Hash(&records[i])
	}
	return looked, slices.DeleteFunc(missing, func(u Unstored) bool { return dead[letter{u.Offset, hashes[u.Offset]}] }), found.Err()
}
