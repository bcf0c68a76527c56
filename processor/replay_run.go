package processor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"turnout/internal/chx"
	"turnout/internal/failpoint"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/processor/internal/consume"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/publish"
	"turnout/processor/internal/sink"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// replay builds a generation in three steps: what lies before the topic's part comes from the raw rows
// and, where those are gone, from the live generation; then the topic is read as processors read it;
// and when the new generation has passed the live one it becomes that.
type replay struct {
	cfg   ReplayConfig
	conn  *chx.Conn
	kafka *kafkax.Client
	log   *slog.Logger
	out   io.Writer

	live, next uint32
	parts      []part
}

// part is what a replay does with one partition.
type part struct {
	begin int64 // where reading the topic begins
	// reach is the last offset that has to be read before the new generation may become live; the
	// progress of processors that go on meanwhile raises it. -1: none.
	reach int64
	// rawFrom is the first offset whose raw row is not known to be stored.
	rawFrom int64
	anew    time.Time // when the topic was made anew, zero if never
	isAnew  bool      // and that is found only now
}

func (r *replay) run(ctx context.Context) error {
	if err := r.plan(ctx); err != nil {
		return err
	}
	if err := r.seed(ctx); err != nil {
		return err
	}
	failpoint.Reach("replay seeded")
	if err := r.read(ctx); err != nil {
		return err
	}
	now, err := sink.LiveGeneration(ctx, r.conn)
	if err != nil {
		return err
	}
	if now != r.live && now != r.next { // what was compared with is not live any more
		return fmt.Errorf("another replay has made generation %d live meanwhile; generation %d is left unfinished and is not live: run it again if it is still wanted", now, r.next)
	}
	if err := r.conn.Exec(chx.SyncInsert(ctx), "INSERT INTO fold_generations (generation, reason) VALUES (?, 'replay')", r.next); err != nil {
		return fmt.Errorf("making generation %d live: %w", r.next, err)
	}
	failpoint.Reach("generation live")
	fmt.Fprintf(r.out, "generation %d is live\n", r.next)
	return r.publish(ctx)
}

// plan looks at every partition and says where it begins. Nothing is written.
func (r *replay) plan(ctx context.Context) error {
	from, err := r.cfg.from()
	if err != nil {
		return err
	}
	if r.live, err = sink.LiveGeneration(ctx, r.conn); err != nil {
		return err
	}
	var highest uint32
	// A replay that died may have left gaps and nothing else.
	if err := r.conn.QueryRow(ctx, "SELECT greatest((SELECT max(generation) FROM folds), (SELECT max(generation) FROM sink_gaps))").Scan(&highest); err != nil {
		return fmt.Errorf("reading generations: %w", err)
	}
	r.next = max(r.live, highest) + 1
	partitions, err := r.kafka.Partitions(ctx, topic.Attempts)
	if err != nil {
		return err
	}
	if err := from.known(partitions); err != nil {
		return err
	}
	r.parts = make([]part, partitions)
	watch := &consume.Worker{Kafka: r.kafka, ClickHouse: r.conn, Log: r.log, Generation: r.live}
	for p := range r.parts {
		at, err := watch.Inspect(ctx, p)
		if err != nil {
			return err
		}
		if r.parts[p], err = r.partOf(ctx, p, at, from); err != nil {
			return err
		}
	}
	return r.recall(ctx)
}

func (r *replay) partOf(ctx context.Context, p int, at consume.Standing, from begin) (part, error) {
	out := part{begin: at.First, reach: -1}
	if at.Known {
		out.reach, out.rawFrom = at.Stored.Offset, at.Stored.Offset+1
	}
	if gap := at.Gap; gap != nil && gap.Cause != consume.Expired {
		// Another log: all of it is new, and every raw row there is belongs to the old one.
		out.isAnew, out.reach, out.rawFrom = true, at.Next-1, 0
		return out, nil
	}
	wanted, err := from.offset(ctx, r.kafka, p, at)
	if err != nil {
		return out, err
	}
	// What was never folded has no raw rows to be taken from.
	out.begin = max(at.First, min(wanted, out.rawFrom))
	return out, nil
}

// offset is where a partition is to be read from, within what its log holds.
func (b begin) offset(ctx context.Context, kafka *kafkax.Client, p int, at consume.Standing) (int64, error) {
	if !b.at.IsZero() {
		wanted, err := kafka.OffsetAt(ctx, topic.Attempts, p, b.at)
		return max(wanted, at.First), err
	}
	wanted, ok := b.offsets[p]
	switch {
	case !ok:
		return at.First, nil
	case at.First == at.Next && wanted != at.Next:
		return 0, fmt.Errorf("from: partition %d holds no records; leave it out, or begin at its end, %d:%d", p, p, at.Next)
	case wanted < at.First || wanted > at.Next:
		return 0, fmt.Errorf("from: partition %d holds offsets %d to %d, not %d", p, at.First, at.Next-1, wanted)
	}
	return wanted, nil
}

// known refuses partitions that there are not.
func (b begin) known(partitions int) error {
	for _, p := range slices.Sorted(maps.Keys(b.offsets)) {
		if p >= partitions {
			return fmt.Errorf("from: there is no partition %d; the topic has %d, from 0 on", p, partitions)
		}
	}
	return nil
}

// recall applies what earlier replays and accepted gaps left: which raw rows belong to an old log.
func (r *replay) recall(ctx context.Context) error {
	rows, err := r.conn.Query(ctx, "SELECT kafka_partition, cause, max(last_offset) + 1, max(accepted_at) FROM sink_gaps WHERE generation = ? AND cause IN (?, ?) GROUP BY kafka_partition, cause",
		r.live, string(consume.MadeAnew), string(consume.OtherLog))
	if err != nil {
		return fmt.Errorf("reading gaps: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p int32
		var cause string
		var next int64
		var at time.Time
		if err := rows.Scan(&p, &cause, &next, &at); err != nil {
			return fmt.Errorf("reading gaps: %w", err)
		}
		if int(p) >= len(r.parts) || r.parts[p].isAnew {
			continue
		}
		if one := &r.parts[p]; consume.Cause(cause) == consume.MadeAnew {
			one.anew = at
		} else {
			one.begin = max(one.begin, next) // the new log counts from there, the raw rows before are of the old one
		}
	}
	return rows.Err()
}

// seed fills the new generation with what does not come from the topic.
func (r *replay) seed(ctx context.Context) error {
	var now, oldestRow time.Time
	var rows uint64
	if err := r.conn.QueryRow(ctx, "SELECT now64(3, 'UTC'), min(started_at), count() FROM attempts").Scan(&now, &oldestRow, &rows); err != nil {
		return fmt.Errorf("looking for the oldest raw row: %w", err)
	}
	// From this midnight on every raw row is there. Days before are carried over, closed as they are.
	const day = 24 * time.Hour
	whole := now.Add(-r.cfg.Retention.Attempts).Truncate(day).Add(day)
	if first := oldestRow.Truncate(day); first.After(whole) {
		whole = first
	}
	if rows == 0 {
		whole = now
	}
	var anew []int
	for p := range r.parts {
		one := &r.parts[p]
		cause, first, last := consume.Cause(""), int64(0), int64(-1)
		switch {
		case one.isAnew:
			anew = append(anew, p)
			one.anew = now
			cause = consume.MadeAnew
		case !one.anew.IsZero():
			if err := r.copyGap(ctx, p); err != nil {
				return err
			}
		case one.begin > one.rawFrom:
			cause, first, last = consume.Expired, one.rawFrom, one.begin-1
			if one.rawFrom == 0 { // nothing was ever read of it: no promise was made
				cause = ""
			}
		}
		if cause != "" {
			r.log.Warn("records were never read and are gone, or the topic was made anew", "partition", p, "cause", cause, "first_missing", first, "last_missing", last)
			if err := consume.RecordGap(ctx, r.conn, r.next, p, first, last, cause); err != nil {
				return fmt.Errorf("recording a gap of partition %d: %w", p, err)
			}
			failpoint.Reach("replay gap recorded")
		}
		oldest := func(kept time.Duration) time.Time {
			if t := now.Add(-kept); t.After(whole) {
				return t
			}
			return whole
		}
		if err := sink.Seed(ctx, r.conn, sink.Seeding{Generation: r.next, Partition: p, Below: one.begin, Anew: one.anew,
			OldestSlot: oldest(r.cfg.Retention.Slots), OldestUsage: oldest(r.cfg.Retention.UsageHourly)}); err != nil {
			return err
		}
		if err := r.mark(ctx, p); err != nil {
			return err
		}
		r.log.Info("replay begins", "generation", r.next, "live", r.live, "partition", p, "offset", one.begin, "to_pass", one.reach, "raw_rows_whole_from", whole)
	}
	return sink.Carry(ctx, r.conn, r.live, r.next, whole, anew)
}

// copyGap takes over that the topic was made anew, with its time.
func (r *replay) copyGap(ctx context.Context, p int) error {
	err := r.conn.Exec(sink.SyncOneBlock(ctx), `INSERT INTO sink_gaps SELECT * REPLACE (toUInt32(?) AS generation) FROM sink_gaps WHERE sink_gaps.generation = ? AND kafka_partition = ? AND cause = ?`,
		r.next, r.live, int32(p), string(consume.MadeAnew))
	if err != nil {
		return fmt.Errorf("taking over a gap of partition %d: %w", p, err)
	}
	return nil
}

// mark stores the progress that a partition begins with, so that its watermark is known at once and
// the log is compared with the record before.
func (r *replay) mark(ctx context.Context, p int) error {
	last := r.parts[p].begin - 1
	if last < 0 {
		return nil
	}
	stored, ok, err := sink.ReadProgress(ctx, r.conn, r.live, p)
	if err != nil {
		return err
	}
	if !ok || stored.Offset != last || r.parts[p].isAnew {
		stored = sink.Progress{Offset: last}
		first, next, err := r.kafka.Bounds(ctx, topic.Attempts, p)
		if err != nil {
			return err
		}
		if last >= first && last < next {
			if stored.Hash, err = r.hash(ctx, p, last); err != nil {
				return err
			}
		}
	}
	return sink.WriteProgress(ctx, r.conn, r.next, p, stored)
}

func (r *replay) hash(ctx context.Context, p int, offset int64) (uint64, error) {
	fetcher := r.kafka.NewFetcher(topic.Attempts, p, offset)
	defer fetcher.Close()
	for {
		records, err := fetcher.Fetch(ctx, 1)
		if err != nil {
			return 0, fmt.Errorf("reading record %d of partition %d: %w", offset, p, err)
		}
		if len(records) > 0 {
			return sink.Hash(records[0].Value), nil
		}
	}
}

// read counts the topic until the new generation has passed the live one. Records that the live one
// has not stored yet are stored here too: after the flip nobody would.
func (r *replay) read(ctx context.Context) error {
	refused, err := r.refused(ctx)
	if err != nil {
		return err
	}
	rawFrom := map[int]int64{}
	for p, one := range r.parts {
		rawFrom[p] = one.rawFrom
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	out := sink.New(sink.Config{Generation: r.next, MaxRows: batchRows, MaxDelay: batchDelay, Slots: r.cfg.Retention.Slots, Usage: r.cfg.Retention.UsageHourly, RawFrom: rawFrom, At: failpoint.Reach},
		r.conn, r.conn, deadletter.New(r.kafka, r.conn), r.log, sink.NewMetrics(telemetry.NewMetrics()), time.Now, func(int, int64) {})
	status := consume.NewStatus()
	worker := &consume.Worker{Kafka: r.kafka, ClickHouse: r.conn, Sink: out, Log: r.log, Status: status, Generation: r.next,
		Skip: func(one *kafkax.Record) bool {
			letters := refused[place{one.Partition, one.Offset}]
			return len(letters) > 0 && one.Offset < r.parts[one.Partition].rawFrom && slices.Contains(letters, deadletter.Hash(one))
		}}
	var storing, workers sync.WaitGroup
	storing.Go(func() { out.Run(taking, ctx) })
	for p := range r.parts {
		workers.Go(func() { worker.Run(reading, p) })
	}
	err = r.awaitPassed(ctx, status)
	stopReading()
	workers.Wait()
	stopTaking()
	storing.Wait()
	return err
}

func (r *replay) awaitPassed(ctx context.Context, status *consume.Status) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("replay was stopped; generation %d is left unfinished and is not live: %w", r.next, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
		if gaps := status.Stopped(); len(gaps) > 0 {
			return fmt.Errorf("replay cannot go on: %w", gaps[0])
		}
		behind, err := r.behind(ctx)
		if err != nil || behind == 0 {
			return err
		}
	}
}

// behind is how many records the new generation lacks to be as far as the live one.
func (r *replay) behind(ctx context.Context) (int64, error) {
	rows, err := r.conn.Query(ctx, "SELECT kafka_partition, generation, toInt64(max(kafka_offset)) FROM folds WHERE kind = 'progress' AND generation IN (?, ?) GROUP BY kafka_partition, generation", r.live, r.next)
	if err != nil {
		return 0, fmt.Errorf("comparing progress: %w", err)
	}
	defer rows.Close()
	have := make([]int64, len(r.parts))
	want := make([]int64, len(r.parts))
	for p, one := range r.parts {
		have[p], want[p] = -1, one.reach
	}
	for rows.Next() {
		var p int32
		var generation uint32
		var offset int64
		if err := rows.Scan(&p, &generation, &offset); err != nil {
			return 0, fmt.Errorf("comparing progress: %w", err)
		}
		switch {
		case int(p) >= len(r.parts):
		case generation == r.next:
			have[p] = offset
		case !r.parts[p].isAnew: // its live progress is of another log
			want[p] = max(want[p], offset)
		}
	}
	var behind int64
	for p := range have {
		behind += max(want[p]-have[p], 0)
	}
	return behind, rows.Err()
}

// publish makes the first snapshot of the new generation, for gateways that would wait for one while
// no processor runs. It has the profiles of the newest one.
func (r *replay) publish(ctx context.Context) error {
	profiles := []snapshot.Profile{snapshot.DefaultProfile()}
	var stored snapshot.StoredHead
	err := r.conn.QueryRow(ctx, snapshot.SelectHead).Scan(stored.Targets()...)
	if err == nil {
		if head, err := stored.Head(); err == nil {
			profiles = head.Profiles
		}
	} else if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading the newest snapshot: %w", err)
	}
	publisher := publish.New(publish.Config{}, r.conn, nil, nil, func() []snapshot.Profile { return profiles }, r.log, publish.NewMetrics(telemetry.NewMetrics()))
	head, err := publisher.Publish(ctx)
	if err != nil {
		return fmt.Errorf("generation %d is live, but its first snapshot was not published; a processor will do it: %w", r.next, err)
	}
	fmt.Fprintf(r.out, "snapshot %s is published\n", head.ID)
	return nil
}

type place struct {
	partition int
	offset    int64
}

// refused lists the records that could be read but not stored, with their hashes: they count nowhere.
// A place alone does not name one: where the topic was made anew, letters of the old log name places
// at which the new one holds good records.
func (r *replay) refused(ctx context.Context) (map[place][]uint64, error) {
	rows, err := r.conn.Query(ctx, "SELECT kafka_partition, kafka_offset, record_hash FROM dead_letters WHERE topic = ?", topic.Attempts)
	if err != nil {
		return nil, fmt.Errorf("reading dead letters: %w", err)
	}
	defer rows.Close()
	out := map[place][]uint64{}
	for rows.Next() {
		var p int32
		var offset int64
		var hash uint64
		if err := rows.Scan(&p, &offset, &hash); err != nil {
			return nil, fmt.Errorf("reading dead letters: %w", err)
		}
		at := place{int(p), offset}
		out[at] = append(out[at], hash)
	}
	return out, rows.Err()
}
