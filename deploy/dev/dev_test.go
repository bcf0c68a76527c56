package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"turnout/deploy/topics"
	"turnout/gateway"
	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/schemas/resource"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func start(t *testing.T, data string, environ ...string) *Stack {
	t.Helper()
	stack, err := Start(t.Context(), Free(data), lifecycle.Env{Environ: environ}, slog.New(slog.DiscardHandler), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

func ask(t *testing.T, s *Stack) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.GatewayURL+"/v1/chat/completions", strings.NewReader(`{"model":"sim-small","max_tokens":4,"messages":[{"role":"user","content":"Hello world"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %v", resp.Status, body, err)
	}
	var answer map[string]any
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func rows(t *testing.T, s *Stack) (n uint64) {
	t.Helper()
	db, err := chx.Open(s.ClickHouse)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(t.Context(), "SELECT count() FROM attempts_unique").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDataSurvivesAndStoppingIsQuick(t *testing.T) {
	data := t.TempDir()
	first := start(t, data)
	if answer := ask(t, first); answer["metadata"].(map[string]any)["used_provider"] == "" {
		t.Errorf("no provider in %v", answer)
	}
	deadline := time.Now().Add(20 * time.Second)
	for rows(t, first) != 1 {
		if time.Now().After(deadline) {
			t.Fatal("the attempt is no row")
		}
		time.Sleep(100 * time.Millisecond)
	}
	var ports map[string]int
	text, err := os.ReadFile(filepath.Join(data, "ports.json"))
	if err == nil {
		err = json.Unmarshal(text, &ports)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gateway", "admin", "analytics", "kafka", "clickhouse_native", "clickhouse_http", "sim"} {
		if ports[name] == 0 {
			t.Errorf("ports.json has no %s: %v", name, ports)
		}
	}
	// `turnout topics create` on what dev wrote used to ask for another number of partitions.
	var said bytes.Buffer
	if err := topics.Main(t.Context(), lifecycle.Env{Args: []string{"--config", filepath.Join(data, "turnout.yaml")}, Stdout: &said, Stderr: &said}, config.Keys(gateway.DefaultConfig())); err != nil || !strings.Contains(said.String(), "all were there") {
		t.Errorf("topics create: %v, %s", err, said.String())
	}
	began := time.Now()
	first.Stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}

	second := start(t, data)
	defer second.Stop()
	if second.Key != first.Key {
		t.Error("the API key changed")
	}
	if n := rows(t, second); n != 1 {
		t.Errorf("%d rows after a restart", n)
	}
	ask(t, second)
}

func TestAPortInUseNamesThePortAndTheFlag(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for flag, set := range map[string]func(*Config){
		"--admin_listen":     func(c *Config) { c.AdminListen = ln.Addr().String() },
		"--analytics.listen": func(c *Config) { c.Analytics.Listen = ln.Addr().String() },
		"--kafka.brokers":    func(c *Config) { c.Kafka.Brokers = []string{ln.Addr().String()} },
		"--clickhouse.http":  func(c *Config) { c.ClickHouse.HTTP = "http://" + ln.Addr().String() },
	} {
		cfg := Free(t.TempDir())
		set(&cfg)
		_, err := Start(t.Context(), cfg, lifecycle.Env{}, slog.New(slog.DiscardHandler), Options{})
		if err == nil || !strings.Contains(err.Error(), port) || !strings.Contains(err.Error(), " "+flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestOneFolderServesOneStack(t *testing.T) {
	data := t.TempDir()
	release, err := lock(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := Start(t.Context(), Free(data), lifecycle.Env{}, slog.New(slog.DiscardHandler), Options{}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("got %v", err)
	}
}

func TestRealProvidersJoinForTheirOwnModelsOnly(t *testing.T) {
	set, err := realProviders(lifecycle.Env{Environ: []string{"GROQ_API_KEY=gsk", "DEEPSEEK_API_KEY=sk", "OPENAI_API_KEY="}})
	if err != nil {
		t.Fatal(err)
	}
	var joined []string
	for _, p := range set.Providers {
		joined = append(joined, p.ID)
	}
	slices.Sort(joined)
	if !slices.Equal(joined, []string{"deepseek", "groq"}) {
		t.Errorf("joined: %v", joined)
	}
	for _, m := range set.Models {
		if strings.HasPrefix(m.ID, "sim-") || len(m.Mappings) == 0 {
			t.Errorf("%s is served by them", m.ID)
		}
	}
	if len(set.Models) < 5 {
		t.Errorf("only %d models", len(set.Models))
	}
	if _, err := resource.Parse(resource.Source{Name: "real.yaml", Data: resource.Encode(set)}); err != nil {
		t.Errorf("what joins does not parse: %v", err)
	}
	if set, err = realProviders(lifecycle.Env{}); err != nil || len(set.Providers) > 0 || len(set.Models) > 0 {
		t.Errorf("without keys: %d providers, %v", len(set.Providers), err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"engines: \"redis\"":   {"--engines", "redis"},
		"kafka.brokers: need":  {"--engines", "clickhouse"},
		"leave it out of eng":  {"--clickhouse.addr", "db.example.com:9000"},
		"data: empty":          {"--data", ""},
		"sim.listen: \"here\"": {"--sim.listen", "here"},
		"spool.when_full: \"e": {"--spool.when_full", "explode"}, // the gateway's own were looked at after the engines had started
		"argument \"resources": {"resources"},
	} {
		var out bytes.Buffer
		err := Main(context.Background(), lifecycle.Env{Args: append(args, "--check-config"), Stdout: &out, Stderr: &out}, nil)
		if lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Whoever waits in vain is told what for.
func TestNotReadySaysWhy(t *testing.T) {
	cfg := Free(t.TempDir())
	cfg.Resources = []string{t.TempDir()} // without a file in it
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil { // everything has been started once this file is there
			if _, err := os.Stat(filepath.Join(cfg.Data, "ports.json")); err == nil {
				time.AfterFunc(2*time.Second, cancel)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	stack, err := Start(ctx, cfg, lifecycle.Env{}, slog.New(slog.DiscardHandler), Options{})
	if err == nil {
		stack.Stop()
		t.Fatal("ready without resources")
	}
	if !strings.Contains(err.Error(), "the gateway is not ready: ") || !strings.Contains(err.Error(), "resource") {
		t.Errorf("%v", err)
	}
}

// With resources of one's own the banner used to end after a line.
func TestTheBannerSaysHowToAskWithOwnResourcesToo(t *testing.T) {
	s := &Stack{cfg: Free(t.TempDir())}
	s.cfg.Resources = []string{"mine"}
	var out bytes.Buffer
	s.banner(&out, time.Second)
	for _, want := range []string{"mine", "/v1/chat/completions", "bin/turnout explain --config", "attempts_unique", "analytics savings"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "/control/") && strings.Contains(out.String(), "Break a provider") {
		t.Errorf("simulators that are not served are offered for breaking:\n%s", out.String())
	}
}
