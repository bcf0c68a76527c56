package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

// patience bounds all questions to ClickHouse together.
const patience = 30 * time.Second

// Config of `turnout explain`.
type Config struct {
	ClickHouse chx.Config `koanf:"clickhouse"`
	JSON       bool       `koanf:"json" help:"print JSON, as /admin/v1/decisions does, instead of text"`
}

// DefaultConfig holds where nothing is said.
func DefaultConfig() Config { return Config{ClickHouse: chx.Default()} }

// Validate reports every mistake with its key.
func (c *Config) Validate() error { return c.ClickHouse.Validate() }

// Words is what stands beside the flags.
func (c *Config) Words() string { return "REQUEST_ID" }

// Main is `turnout explain REQUEST_ID`. It succeeds also where deciding again comes out different: that
// is an answer.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	loaded, err := config.Load("explain", &cfg, env, known)
	if err != nil {
		return err
	}
	if loaded.CheckOnly {
		_, _ = fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	if len(loaded.Args) != 1 {
		return lifecycle.Usage(errors.New("name one request: turnout explain REQUEST_ID; its id is in x-request-id and in metadata.request_id of the answer"))
	}
	conn, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := loaded.Args[0]
	report, err := Explain(ctx, ClickHouse{conn}, id)
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("nothing is stored of request %q: rows arrive within some seconds of the answer and are kept as long as the retention of attempts and refusals says; is it the id from x-request-id?", id)
	}
	if err != nil {
		return cfg.ClickHouse.Hint(err)
	}
	if !cfg.JSON {
		return report.Write(env.Stdout)
	}
	out := json.NewEncoder(env.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(report); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}
