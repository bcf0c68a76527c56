package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/analytics"
	"turnout/internal/chx"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/migrations"
)

func TestMain(m *testing.M) { chtest.Main(m) }

func database(t *testing.T) chx.Config {
	t.Helper()
	cfg := chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	db, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(chx.SyncInsert(t.Context()), `INSERT INTO attempts (event_id, request_id, project_id, provider, model, outcome, attempt_no, started_at, finished_at, cost_nano_usd, baseline_nano_usd, baseline_kind, usage_source, credential_source)
		VALUES ('e1', 'r1', 'shop', 'a', 'm', 'completed', 1, now64(6), now64(6), 1500000, 3000000, 'model', 'reported', 'platform')`); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func ask(t *testing.T, cfg chx.Config, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	environ := []string{"TURNOUT_CLICKHOUSE_ADDR=" + cfg.Addr[0], "TURNOUT_CLICKHOUSE_DATABASE=" + cfg.Database, "TURNOUT_CLICKHOUSE_USERNAME=" + cfg.Username, "TURNOUT_CLICKHOUSE_PASSWORD=" + cfg.Password.Reveal()}
	err := analytics.Main(t.Context(), lifecycle.Env{Args: args, Environ: environ, Stdout: &out, Stderr: io.Discard}, nil)
	return out.String(), err
}

func TestQuestionsFromTheCommandLine(t *testing.T) {
	cfg := database(t)
	for question, want := range map[string]string{"savings": "0.003000", "cost": "0.001500", "health": "100.0", "cache": "shop", "retries": "nothing in this time"} {
		out, err := ask(t, cfg, question, "--since", "1h")
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: want %q in %q, %v", question, want, out, err)
		}
	}
	out, err := ask(t, cfg, "savings", "--json")
	var row map[string]any
	if err != nil || json.Unmarshal([]byte(out), &row) != nil || row["saving_nano_usd"] != 1.5e6 {
		t.Errorf("json: %q %v", out, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	cfg := database(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"profits"}, `no question "profits"`},
		{[]string{"savings", "--since=-1h"}, "since: -1h0m0s is not between 0 and 2400h"},
		{[]string{"health", "--step", "1ms"}, "step: 1ms is below 1s"},
		{[]string{"savings", "--since", "1000000h"}, "since: 1000000h0m0s is not between 0 and 2400h"},
		{[]string{"cost", "--since", "2500000h"}, "since: 2500000h0m0s is not between 0 and 2400h"},
		{[]string{"health", "--step", "1200000h"}, "step: 1200000h0m0s is above since, 24h0m0s"},
		{[]string{"cost", "much"}, `unexpected argument "much"`},
		{[]string{"serve", "now"}, `unexpected argument "now"`},
		{[]string{"savings", "--since", "yesterday"}, "since: \"yesterday\" is not a duration"},
	} {
		if _, err := ask(t, cfg, c.args...); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v", c.args, err)
		}
	}
}

func TestServe(t *testing.T) {
	cfg := analytics.Default()
	cfg.ClickHouse = database(t)
	cfg.Analytics.Listen = testkit.FreeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- analytics.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	base := "http://" + cfg.Analytics.Listen
	await(t, base+"/readyz")
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/api/v1/savings?since=1h":                      {200, `"saving_nano_usd":1500000`},
		"/api/v1/cost":                                  {200, `"cost_nano_usd":1500000`},
		"/api/v1/health?step=10s":                       {200, `"uptime":100`},
		"/api/v1/retries":                               {200, `"rows":[]`},
		"/api/v1/cache?project=shop":                    {200, `"project_id":"shop"`},
		"/api/v1/savings?since=soon":                    {400, `"param":"since"`},
		"/api/v1/health?step=1ms":                       {400, `"param":"step"`},
		"/api/v1/cost?since=-1h":                        {400, `"param":"since"`},
		"/api/v1/cost?since=9999h":                      {400, `"param":"since"`},
		"/api/v1/health?step=1.5s":                      {400, `"param":"step"`},
		"/api/v1/health?step=9000h":                     {400, `"param":"step"`},
		"/api/v1/cost?sinc=1h":                          {400, `"param":"sinc"`},
		"/api/v1/cost?since=1h&since=2h":                {400, `"param":"since"`},
		`/api/v1/cost?project=it%27s%5C%09%0A%C3%A4%22`: {200, `"rows":[]`},
		"/api/v1/profits":                               {404, `"message":"there is no /api/v1/profits here; see GET /","param":null`}, // said "Not Found" and param ""
	} {
		status, body := get(t, base+path)
		if status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get(t, base+"/metrics"); status != 200 || !strings.Contains(body, "turnout_analytics_questions_total") {
		t.Errorf("/metrics after questions: %d %s", status, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestClickHouseAwayIsAClearAnswer(t *testing.T) {
	cfg := analytics.Default()
	cfg.ClickHouse.Addr = []string{testkit.FreeAddress(t)}
	cfg.Analytics.Listen = testkit.FreeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- analytics.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	await(t, "http://"+cfg.Analytics.Listen+"/healthz")
	if status, body := get(t, "http://"+cfg.Analytics.Listen+"/api/v1/cost"); status != 503 || !strings.Contains(body, "ClickHouse cannot answer") {
		t.Errorf("%d %s", status, body)
	}
	cancel()
	<-done
}

func await(t *testing.T, url string) {
	t.Helper()
	for range 200 {
		if resp, err := http.Get(url); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s does not answer", url)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
