// Package analytics answers questions about what routing did, from the command line and over HTTP. It
// reads the same tables as everyone else, with a read-only user if it is given one.
package analytics

import (
	"errors"
	"fmt"
	"net"
	"time"

	"turnout/analytics/queries"
	"turnout/internal/chx"
	"turnout/internal/telemetry"
)

// Config is the settings of `turnout analytics`.
type Config struct {
	Analytics struct {
		Listen string `koanf:"listen" help:"address of the HTTP API"`
	} `koanf:"analytics"`
	ClickHouse chx.Config    `koanf:"clickhouse"`
	Log        telemetry.Log `koanf:"log"`
	Shutdown   time.Duration `koanf:"shutdown_timeout" help:"how long open requests may take when stopping"`
}

// Default returns the settings for everything on one machine.
func Default() Config {
	c := Config{ClickHouse: chx.Default(), Log: telemetry.DefaultLog(), Shutdown: 25 * time.Second}
	c.Analytics.Listen = "127.0.0.1:8082"
	return c
}

// Validate returns every mistake, each with its key.
func (c Config) Validate() error {
	var mistakes []error
	if _, _, err := net.SplitHostPort(c.Analytics.Listen); err != nil {
		mistakes = append(mistakes, fmt.Errorf("analytics.listen: %q is not host:port", c.Analytics.Listen))
	}
	if c.Shutdown <= 0 {
		mistakes = append(mistakes, fmt.Errorf("shutdown_timeout: %s is not above zero", c.Shutdown))
	}
	return errors.Join(append(mistakes, c.ClickHouse.Validate(), c.Log.Validate())...)
}

// question is the settings of one question from the command line, beside those of Config.
type question struct {
	Config  `koanf:""`
	Since   time.Duration `koanf:"since" help:"how far back to look"`
	Project string        `koanf:"project" help:"one project; empty: all"`
	Step    time.Duration `koanf:"step" help:"health: length of a step"`
	JSON    bool          `koanf:"json" help:"print JSON lines instead of a table"`
}

func (q question) Validate() error {
	var mistakes []error
	if err := queries.CheckSince(q.Since); err != nil {
		mistakes = append(mistakes, fmt.Errorf("since: %w", err))
	} else if err := queries.CheckStep(q.Step, q.Since); err != nil {
		mistakes = append(mistakes, fmt.Errorf("step: %w", err))
	}
	return errors.Join(append(mistakes, q.Config.Validate())...)
}
