package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/migrations"
	"turnout/processor/internal/consume"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/sink"
	"turnout/processor/verify"
	"turnout/schemas/topic"
)

// ReplayConfig is the settings of `turnout replay`.
type ReplayConfig struct {
	Kafka      kafkax.Config        `koanf:"kafka"`
	ClickHouse chx.Config           `koanf:"clickhouse"`
	Retention  migrations.Retention `koanf:"retention"`
	From       string               `koanf:"from" help:"earliest, or PARTITION:OFFSET,...: where to begin reading the topic; what lies before comes from the raw rows"`
	Verify     bool                 `koanf:"verify" help:"recount the live generation from the raw rows and compare; write nothing"`
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

func (c ReplayConfig) from() (map[int]int64, error) {
	if c.From == "earliest" {
		return nil, nil
	}
	out, err := offsets(strings.Split(c.From, ","))
	if err != nil {
		return nil, fmt.Errorf("from: neither earliest nor a list: %w", err)
	}
	return out, nil
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
	r := &replay{cfg: cfg, conn: conn, kafka: kafka, log: log}
	generation, err := r.run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "generation %d is live\n", generation)
	return nil
}

// compare recounts the live buckets and prints what differs.
func compare(ctx context.Context, conn *chx.Conn, out io.Writer, since time.Time) error {
	generation, err := sink.LiveGeneration(ctx, conn)
	if err != nil {
		return err
	}
	report, err := verify.Folds(ctx, conn, generation, since)
	if err != nil {
		return err
	}
	for _, d := range report.Differences {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintf(out, "generation %d: %d slots and %d hours compared, %d differences\n", generation, report.Slots, report.Hours, len(report.Differences))
	if len(report.Differences) > 0 {
		return &lifecycle.Exit{Code: 1}
	}
	return nil
}

type replay struct {
	cfg   ReplayConfig
	conn  *chx.Conn
	kafka *kafkax.Client
	log   *slog.Logger
}

// nobody takes dead letters: what is one was put aside when it was first read.
type nobody struct{}

func (nobody) Write(context.Context, []deadletter.Letter) error { return nil }

func (r *replay) run(ctx context.Context) (uint32, error) {
	from, err := r.cfg.from()
	if err != nil {
		return 0, err
	}
	live, err := sink.LiveGeneration(ctx, r.conn)
	if err != nil {
		return 0, err
	}
	var highest uint32
	if err := r.conn.QueryRow(ctx, "SELECT max(generation) FROM folds").Scan(&highest); err != nil {
		return 0, fmt.Errorf("reading generations: %w", err)
	}
	next := max(live, highest) + 1
	partitions, err := r.kafka.Partitions(ctx, topic.Attempts)
	if err != nil {
		return 0, err
	}
	refused, err := r.refused(ctx)
	if err != nil {
		return 0, err
	}
	begin, now := map[int]int64{}, time.Now()
	for p := range partitions {
		first, end, err := r.kafka.Bounds(ctx, topic.Attempts, p)
		if err != nil {
			return 0, err
		}
		begin[p] = first
		if at, ok := from[p]; ok {
			if at < first || at > end {
				return 0, fmt.Errorf("from: partition %d holds offsets %d to %d, not %d", p, first, end-1, at)
			}
			begin[p] = at
		}
		if err := sink.Seed(ctx, r.conn, next, p, begin[p], now.Add(-r.cfg.Retention.Slots), now.Add(-r.cfg.Retention.UsageHourly)); err != nil {
			return 0, err
		}
	}
	r.log.Info("replay begins", "generation", next, "live", live, "begin", begin)

	reading, stop := context.WithCancel(ctx)
	defer stop()
	out := sink.New(sink.Config{Generation: next, MaxRows: batchRows, MaxDelay: batchDelay, Slots: r.cfg.Retention.Slots, Usage: r.cfg.Retention.UsageHourly},
		r.conn, nobody{}, r.log, sink.NewMetrics(telemetry.NewMetrics()), time.Now, func(int, int64) {})
	status := consume.NewStatus()
	worker := &consume.Worker{Kafka: r.kafka, ClickHouse: r.conn, Sink: out, Log: r.log, Status: status, Generation: next, Begin: begin,
		Skip: func(p int, offset int64) bool { return refused[place{p, offset}] }}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	tasks.Go(func() { out.Run(reading, reading) })
	for p := range partitions {
		tasks.Go(func() { worker.Run(reading, p) })
	}
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("replay was stopped; generation %d is left unfinished and is not live: %w", next, ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
		if gaps := status.Stopped(); len(gaps) > 0 {
			return 0, fmt.Errorf("replay cannot go on: %w", gaps[0])
		}
		passed, err := r.passed(ctx, live, next)
		if err != nil {
			return 0, err
		}
		if passed {
			break
		}
	}
	if err := r.conn.Exec(chx.SyncInsert(ctx), "INSERT INTO fold_generations (generation, reason) VALUES (?, 'replay')", next); err != nil {
		return 0, fmt.Errorf("making generation %d live: %w", next, err)
	}
	return next, nil
}

// passed says whether the new generation is at least as far as the live one, on every partition.
func (r *replay) passed(ctx context.Context, live, next uint32) (bool, error) {
	var behind uint64
	err := r.conn.QueryRow(ctx, fmt.Sprintf(`SELECT countIf(ahead < 0) FROM (
		SELECT kafka_partition, sumIf(toInt64(kafka_offset) + 1, generation = %d) - sumIf(toInt64(kafka_offset) + 1, generation = %d) AS ahead
		FROM folds FINAL WHERE kind = 'progress' AND generation IN (%d, %d) GROUP BY kafka_partition)`, next, live, live, next)).Scan(&behind)
	if err != nil {
		return false, fmt.Errorf("comparing progress: %w", err)
	}
	return behind == 0, nil
}

type place struct {
	partition int
	offset    int64
}

// refused lists the records that could be read but not stored: they count nowhere.
func (r *replay) refused(ctx context.Context) (map[place]bool, error) {
	rows, err := r.conn.Query(ctx, "SELECT kafka_partition, kafka_offset FROM dead_letters WHERE topic = ?", topic.Attempts)
	if err != nil {
		return nil, fmt.Errorf("reading dead letters: %w", err)
	}
	defer rows.Close()
	out := map[place]bool{}
	for rows.Next() {
		var p int32
		var offset int64
		if err := rows.Scan(&p, &offset); err != nil {
			return nil, fmt.Errorf("reading dead letters: %w", err)
		}
		out[place{int(p), offset}] = true
	}
	return out, rows.Err()
}
