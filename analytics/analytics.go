package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"turnout/analytics/internal/api"
	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
)

const usage = `turnout analytics [serve]: answer questions over HTTP
turnout analytics savings | cost | health | retries | cache: ask one here; each has --help

`

// Main is `turnout analytics [serve | savings | cost | health | retries | cache]`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	what := "serve"
	if len(env.Args) > 0 && !strings.HasPrefix(env.Args[0], "-") {
		what, env.Args = env.Args[0], env.Args[1:]
	}
	if len(env.Args) > 0 && slices.Contains([]string{"-h", "--help"}, env.Args[0]) && what == "serve" {
		fmt.Fprint(env.Stdout, usage)
	}
	if what == "serve" {
		cfg := Default()
		loaded, err := config.Load("analytics", &cfg, env, known)
		if err != nil {
			return err
		}
		if len(loaded.Args) > 0 {
			return lifecycle.Usage(fmt.Errorf("unexpected argument %q; analytics serve takes only flags", loaded.Args[0]))
		}
		if loaded.CheckOnly {
			fmt.Fprintln(env.Stdout, "settings are fine")
			return nil
		}
		return Run(ctx, cfg, cfg.Log.New(env.Stderr))
	}
	ask, ok := questions[what]
	if !ok {
		return lifecycle.Usage(fmt.Errorf("there is no question %q: ask serve, savings, cost, health, retries or cache", what))
	}
	q := question{Config: Default(), Since: 24 * time.Hour, Step: time.Minute}
	loaded, err := config.Load("analytics "+what, &q, env, known)
	if err != nil {
		return err
	}
	if loaded.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	db, err := chx.Open(q.ClickHouse)
	if err != nil {
		return err
	}
	defer db.Close()
	return q.ClickHouse.Hint(ask(ctx, db, q, time.Now(), env.Stdout))
}

// Run serves the HTTP API until ctx ends. It starts without ClickHouse: a question then says that it
// cannot be reached.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	db, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return err
	}
	defer db.Close()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", cfg.Analytics.Listen)
	if err != nil {
		return fmt.Errorf("analytics.listen: %w", err)
	}
	server := &http.Server{
		Handler:           api.New(db, telemetry.NewMetrics(), log, time.Now),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	log.Info("analytics listening", "addr", ln.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serving analytics: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Shutdown)
	defer cancel()
	if err := server.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping analytics: %w", err)
	}
	return nil
}
