package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

// Config is the settings of `turnout migrate`.
type Config struct {
	ClickHouse chx.Config `koanf:"clickhouse"`
	Retention  Retention  `koanf:"retention"`
	Migrate    struct {
		Wait time.Duration `koanf:"wait" help:"how long to wait for a ClickHouse that does not answer"`
	} `koanf:"migrate"`
}

// DefaultConfig is what runs when nothing is said.
func DefaultConfig() Config {
	c := Config{ClickHouse: chx.Default(), Retention: DefaultRetention()}
	c.Migrate.Wait = time.Minute
	return c
}

// Validate names every wrong setting.
func (c Config) Validate() error {
	return errors.Join(c.ClickHouse.Validate(), c.Retention.Validate())
}

// Main is `turnout migrate`: it brings the schema up to date, sets the TTLs and ends.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	result, err := config.Load("migrate", &cfg, env, known)
	if err != nil {
		return err
	}
	if result.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	if err := await(ctx, env, cfg); err != nil {
		return err
	}
	from, to, err := Up(ctx, cfg.ClickHouse)
	if err != nil {
		return err
	}
	switch {
	case to > Latest():
		fmt.Fprintf(env.Stderr, "warning: the schema is at version %d and this binary knows %d; left as it is\n", to, Latest())
		return nil
	case from == to:
		fmt.Fprintf(env.Stdout, "schema is at version %d: nothing to do\n", to)
	default:
		fmt.Fprintf(env.Stdout, "schema migrated from version %d to %d\n", from, to)
	}
	changed, err := cfg.Retention.Apply(ctx, cfg.ClickHouse)
	if len(changed) > 0 {
		fmt.Fprintf(env.Stdout, "retention changed: %s\n", strings.Join(changed, ", "))
	}
	return err
}

// await returns once ClickHouse answers; a missing database is an answer.
func await(ctx context.Context, env lifecycle.Env, cfg Config) error {
	conn, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline := time.Now().Add(cfg.Migrate.Wait)
	for said := false; ; said = true {
		err := conn.Ping(ctx)
		if err == nil || chx.IsCode(err, chx.CodeUnknownDatabase) {
			return nil
		}
		if chx.IsCode(err, chx.CodeAuthentication) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if !said {
			fmt.Fprintf(env.Stderr, "waiting for %v\n", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}
