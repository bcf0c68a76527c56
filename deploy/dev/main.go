package dev

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"turnout/deploy/sim"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

// Main is `turnout dev`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := Default()
	loaded, err := config.Load("dev", &cfg, env, known)
	if err != nil {
		return err
	}
	if loaded.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	began := time.Now()
	stack, err := Start(ctx, cfg, env, cfg.Log.New(env.Stderr), Options{})
	if err != nil {
		return err
	}
	defer stack.Stop()
	stack.banner(env.Stdout, time.Since(began))
	select {
	case <-ctx.Done():
		fmt.Fprintln(env.Stdout, "\nstopping (a second Ctrl-C ends at once)")
		return nil
	case err := <-stack.Failed():
		return err
	}
}

// banner says where everything is and how to try it.
func (s *Stack) banner(out io.Writer, took time.Duration) {
	settings := filepath.Join(s.cfg.Data, "turnout.yaml")
	fmt.Fprintf(out, `Turnout is ready (%.1f s). Data: %s

  gateway      http://%s/v1
  admin        http://%s/metrics  /admin/v1/health  /admin/v1/decisions/REQUEST_ID
  analytics    http://%s/api/v1/savings  /cost  /health  /retries  /cache
  simulators   http://%s/control  /ledger
  kafka        %s
  clickhouse   %s (native)  %s (HTTP)
`, took.Seconds(), s.cfg.Data, s.cfg.Listen, s.cfg.AdminListen, s.cfg.Analytics.Listen, s.cfg.Sim.Listen, strings.Join(s.cfg.Kafka.Brokers, ","), strings.Join(s.cfg.ClickHouse.Addr, ","), s.cfg.ClickHouse.HTTP)
	switch {
	case s.Key == "": // their own resources say which providers there are
	case len(s.Joined) > 0:
		fmt.Fprintf(out, "  real         %s joined, for their own models\n", strings.Join(s.Joined, ", "))
	default:
		fmt.Fprintln(out, "  real         none: set OPENAI_API_KEY, GROQ_API_KEY, ... and start again to have them join")
	}
	if s.Key == "" {
		fmt.Fprintf(out, "\nServing your own resources (%s); their API keys open it.\n", strings.Join(s.cfg.Resources, ", "))
		return
	}
	victim := sim.Default()[0].ID
	fmt.Fprintf(out, `
API key: %[1]s

Ask something; metadata says which provider served it and why:

  curl -s http://%[2]s/v1/chat/completions -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' \
    -d '{"model":"%[3]s","messages":[{"role":"user","content":"Hello world"}]}'

See the attempts as rows:

  curl -s '%[4]s/?user=analyst&database=%[5]s' -d 'SELECT started_at, provider, reason, outcome, cost_nano_usd FROM attempts_unique ORDER BY started_at DESC LIMIT 10'

Break a provider, and watch traffic leave it:

  curl -s -X PUT http://%[6]s/control/%[7]s -d '{"error_rate":0.8}'
  bin/turnout load --url http://%[2]s --key %[1]s --model %[3]s --rate 20 --duration 30s

Ask what routing saved:

  bin/turnout analytics savings --since 1h --config %[8]s
`, s.Key, s.cfg.Listen, sim.Small, s.cfg.ClickHouse.HTTP, s.cfg.ClickHouse.Database, s.cfg.Sim.Listen, victim, settings)
}
