package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/migrations"
)

// ReplayConfig is the settings of `turnout replay`.
type ReplayConfig struct {
	Kafka      kafkax.Config        `koanf:"kafka"`
	ClickHouse chx.Config           `koanf:"clickhouse"`
	Retention  migrations.Retention `koanf:"retention"`
	From       string               `koanf:"from" help:"where to begin reading the topic: earliest (what runs without it), a time such as 2026-01-31T12:00:00Z, or PARTITION:OFFSET,... (partitions not named: earliest); what lies before comes from the raw rows"`
	Verify     bool                 `koanf:"verify" help:"write nothing: recount the live sums from the raw rows and print what differs, the oldest first; with --from also look up every record of the topic from there on"`
	Log        telemetry.Log        `koanf:"log"`
}

// DefaultReplayConfig replays everything that the topic still holds.
func DefaultReplayConfig() ReplayConfig {
	return ReplayConfig{Kafka: kafkax.Default(), ClickHouse: chx.Default(), Retention: migrations.DefaultRetention(), Log: telemetry.DefaultLog()}
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
	if c.From == "" || c.From == "earliest" {
		return begin{}, nil
	}
	if at, err := time.Parse(time.RFC3339, c.From); err == nil {
		return begin{at: at}, nil
	}
	if !strings.Contains(c.From, ":") || strings.Contains(c.From, "-") {
		return begin{}, fmt.Errorf("from: %q is neither earliest, nor a time such as 2026-01-31T12:00:00Z, nor PARTITION:OFFSET,... such as 0:1500,1:900", c.From)
	}
	list, err := offsets(strings.Split(c.From, ","))
	if err != nil {
		return begin{}, fmt.Errorf("from: %w", err)
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
	if err := checkSchema(ctx, cfg.ClickHouse, log); err != nil {
		return fmt.Errorf("clickhouse at %s: %w", strings.Join(cfg.ClickHouse.Addr, ","), err)
	}
	kafka, err := kafkax.Open(cfg.Kafka, log)
	if err != nil {
		return err
	}
	defer kafka.Close()
	if cfg.Verify {
		return (&verification{cfg: cfg, conn: conn, kafka: kafka, log: log, out: env.Stdout}).run(ctx)
	}
	r := &replay{cfg: cfg, conn: conn, kafka: kafka, log: log, out: env.Stdout}
	return r.run(ctx)
}
