package processor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/processor/internal/consume"
	"turnout/processor/internal/sink"
	"turnout/processor/verify"
	"turnout/schemas/topic"
)

// verification is `turnout replay --verify`: it writes nothing.
type verification struct {
	cfg   ReplayConfig
	conn  *chx.Conn
	kafka *kafkax.Client
	log   *slog.Logger
	out   io.Writer
}

// margin is kept from the time at which slots and hours are dropped.
const margin = 10 * time.Minute

func (v *verification) run(ctx context.Context) error {
	generation, err := sink.LiveGeneration(ctx, v.conn)
	if err != nil {
		return err
	}
	wrong, slots, hours := 0, time.Now().Add(-v.cfg.Retention.Slots/2), time.Now().Add(-v.cfg.Retention.Slots/2)
	if v.cfg.From != "" {
		from, err := v.cfg.from()
		if err != nil {
			return err
		}
		if wrong, err = v.topic(ctx, generation, from); err != nil {
			return err
		}
		slots, hours = kept(from.at, v.cfg.Retention.Slots), kept(from.at, v.cfg.Retention.UsageHourly)
	}
	differences, err := v.sums(ctx, generation, slots, hours)
	if err != nil {
		return err
	}
	if wrong+differences > 0 {
		return &lifecycle.Exit{Code: 1}
	}
	return nil
}

// kept is the later of a time and the beginning of what is kept for so long.
func kept(from time.Time, retention time.Duration) time.Time {
	if oldest := time.Now().Add(margin - retention); from.Before(oldest) {
		return oldest
	}
	return from
}

// topic looks up every record from where the reading is to begin to the live progress, and returns how
// many are not stored.
func (v *verification) topic(ctx context.Context, generation uint32, from begin) (int, error) {
	partitions, err := v.kafka.Partitions(ctx, topic.Attempts)
	if err != nil {
		return 0, err
	}
	if err := from.known(partitions); err != nil {
		return 0, err
	}
	watch := &consume.Worker{Kafka: v.kafka, ClickHouse: v.conn, Log: v.log, Generation: generation}
	looked, wrong := int64(0), 0
	for p := range partitions {
		at, err := watch.Inspect(ctx, p)
		if err != nil {
			return 0, err
		}
		if at.Gap != nil {
			fmt.Fprintln(v.out, at.Gap)
			wrong++
			if at.Gap.Cause != consume.Expired {
				continue // another log: none of it is stored
			}
		}
		first, err := from.offset(ctx, v.kafka, p, at)
		if err != nil {
			return 0, err
		}
		if !at.Known || first > at.Stored.Offset {
			continue
		}
		n, missing, err := verify.Topic(ctx, v.kafka, v.conn, topic.Attempts, verify.Range{Partition: p, First: first, Last: at.Stored.Offset}, time.Now().Add(margin-v.cfg.Retention.Attempts))
		if err != nil {
			return 0, fmt.Errorf("comparing partition %d with what is stored: %w", p, err)
		}
		for _, m := range missing {
			fmt.Fprintln(v.out, m)
		}
		looked, wrong = looked+n, wrong+len(missing)
	}
	fmt.Fprintf(v.out, "topic: %d records looked up, %d wrong\n", looked, wrong)
	return wrong, nil
}

// sums recounts the live buckets from the raw rows, prints what differs and returns how much.
func (v *verification) sums(ctx context.Context, generation uint32, slots, hours time.Time) (int, error) {
	report, err := verify.Folds(ctx, v.conn, generation, slots, hours)
	if err != nil {
		return 0, err
	}
	found := report.Differences
	slices.SortStableFunc(found, func(a, b verify.Difference) int { return a.At.Compare(b.At) })
	for _, d := range found {
		fmt.Fprintln(v.out, d)
	}
	fmt.Fprintf(v.out, "generation %d: %d slots since %s and %d hours since %s compared, %d differences; %d that changed meanwhile were left out\n",
		generation, report.Slots, slots.UTC().Format(time.RFC3339), report.Hours, hours.UTC().Format(time.RFC3339), len(found), report.Moving)
	return len(found), nil
}
