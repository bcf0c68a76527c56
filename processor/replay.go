package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/migrations"
	"turnout/processor/internal/sink"
	"turnout/processor/verify"
)

// ReplayConfig is the settings of `turnout replay`.
type ReplayConfig struct {
	Kafka      kafkax.Config        `koanf:"kafka"`
	ClickHouse chx.Config           `koanf:"clickhouse"`
	Retention  migrations.Retention `koanf:"retention"`
	From       string               `koanf:"from" help:"earliest, a time such as 2026-01-31T12:00:00Z, or PARTITION:OFFSET,...: where to begin reading the topic; what lies before comes from the raw rows"`
	Verify     bool                 `koanf:"verify" help:"recount the live generation from the raw rows and print what differs, the oldest first; write nothing"`
	Log        telemetry.Log        `koanf:"log"`
}

// DefaultReplayConfig replays everything that the topic still holds.
func DefaultReplayConfig() ReplayConfig {
	return ReplayConfig{Kafka: kafkax.Default(), ClickHouse: chx.Default(), Retention: migrations.DefaultRetention(), From: "earliest", Log: telemetry.DefaultLog()}
}

// Validate names every wrong setting.
func (c ReplayConfig) Validate() error {
	_, err := c.from()
	return errors.Join(c.Kafka.Validate(), c.ClickHouse.Validate(), c.Retention.Validate(), c.Log.Validate(), err)
}

// begin is where reading the topic begins: at a time, at offsets, or as early as it can.
type begin struct {
	at      time.Time
	offsets map[int]int64
}

func (c ReplayConfig) from() (begin, error) {
	if c.From == "earliest" {
		return begin{}, nil
	}
	if at, err := time.Parse(time.RFC3339, c.From); err == nil {
		return begin{at: at}, nil
	}
	list, err := offsets(strings.Split(c.From, ","))
	if err != nil {
		return begin{}, fmt.Errorf("from: %q is neither earliest, nor a time such as 2026-01-31T12:00:00Z, nor PARTITION:OFFSET,... such as 0:1500,1:900", c.From)
	}
	return begin{offsets: list}, nil
}

// ReplayMain is `turnout replay`: it builds a new generation of folds beside the live one and makes it
// live once it has passed that. Processors go on meanwhile and follow within seconds.
func ReplayMain(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultReplayConfig()
	result, err := config.Load("replay", &cfg, env, known)
	if err != nil {
		return err
	}
	if len(result.Args) > 0 {
		return lifecycle.Usage(fmt.Errorf("unexpected argument %q; replay takes only flags", result.Args[0]))
	}
	if result.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	log := cfg.Log.New(env.Stderr)
	conn, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return err
	}
	defer conn.Close()
	if cfg.Verify {
		return compare(ctx, conn, env.Stdout, time.Now().Add(-cfg.Retention.Slots/2))
	}
	kafka, err := kafkax.Open(cfg.Kafka, log)
	if err != nil {
		return err
	}
	defer kafka.Close()
	r := &replay{cfg: cfg, conn: conn, kafka: kafka, log: log, out: env.Stdout}
	return r.run(ctx)
}

// looks is how often a difference is looked at: a batch whose rows are stored and whose buckets are
// not yet is none.
const (
	looks     = 3
	lookPause = 1500 * time.Millisecond // longer than a batch takes
)

// compare recounts the live buckets and prints what differs.
func compare(ctx context.Context, conn *chx.Conn, out io.Writer, since time.Time) error {
	generation, err := sink.LiveGeneration(ctx, conn)
	if err != nil {
		return err
	}
	var report verify.Report
	var lasting []verify.Difference
	for look := range looks {
		if report, err = verify.Folds(ctx, conn, generation, since); err != nil {
			return err
		}
		if look == 0 {
			lasting = report.Differences
		}
		lasting = slices.DeleteFunc(lasting, func(d verify.Difference) bool {
			return !slices.ContainsFunc(report.Differences, func(o verify.Difference) bool {
				return o.Kind == d.Kind && o.At.Equal(d.At) && o.Bucket == d.Bucket && o.Column == d.Column
			})
		})
		if len(lasting) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookPause):
		}
	}
	slices.SortStableFunc(lasting, func(a, b verify.Difference) int { return a.At.Compare(b.At) })
	for _, d := range lasting {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintf(out, "generation %d: %d slots and %d hours compared, %d differences\n", generation, report.Slots, report.Hours, len(lasting))
	if len(lasting) > 0 {
		return &lifecycle.Exit{Code: 1}
	}
	return nil
}
