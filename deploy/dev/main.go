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
  processor    http://%s/metrics  /readyz
  simulators   http://%s/control  /ledger
  kafka        %s
  clickhouse   %s (native)  %s (HTTP)
`, took.Seconds(), s.cfg.Data, s.cfg.Listen, s.cfg.AdminListen, s.cfg.Analytics.Listen, s.cfg.Processor.Listen, s.cfg.Sim.Listen, strings.Join(s.cfg.Kafka.Brokers, ","), strings.Join(s.cfg.ClickHouse.Addr, ","), s.cfg.ClickHouse.HTTP)
	switch {
	case s.Key == "": // their own resources say which providers there are
	case len(s.Joined) > 0:
		fmt.Fprintf(out, "  real         %s joined, for their own models\n", strings.Join(s.Joined, ", "))
	default:
		fmt.Fprintln(out, "  real         none: set OPENAI_API_KEY, GROQ_API_KEY, ... and start again to have them join")
	}
	key, model := s.Key, sim.Small
	if key == "" {
		fmt.Fprintf(out, "\nServing your own resources (%s); their API keys open it.\n", strings.Join(s.cfg.Resources, ", "))
		key, model = "KEY", "MODEL"
	} else {
		fmt.Fprintf(out, "\nAPI key: %s\n", key)
	}
	fmt.Fprintf(out, `
Ask something; metadata says which provider served it and why:

  curl -s http://%[2]s/v1/chat/completions -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' \
    -d '{"model":"%[3]s","messages":[{"role":"user","content":"Hello world"}]}'

Ask why at length (the id is metadata.request_id):

  bin/turnout explain --config %[4]s REQUEST_ID

See the attempts as rows:

  curl -s '%[5]s/?user=analyst&database=%[6]s' -d 'SELECT started_at, provider, reason, outcome, cost_nano_usd FROM attempts_unique ORDER BY started_at DESC LIMIT 10'
`, key, s.cfg.Listen, model, settings, s.cfg.ClickHouse.HTTP, s.cfg.ClickHouse.Database)
	if s.Key != "" {
		fmt.Fprintf(out, `
Break a provider, and watch traffic leave it:

  curl -s -X PUT http://%s/control/%s -d '{"error_rate":0.8}'
  bin/turnout load --url http://%s --key %s --model %s --rate 20 --duration 30s
`, s.cfg.Sim.Listen, sim.Default()[0].ID, s.cfg.Listen, key, model)
	}
	fmt.Fprintf(out, "\nAsk what routing saved:\n\n  bin/turnout analytics savings --since 1h --config %s\n", settings)
}
