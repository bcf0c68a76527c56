package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"turnout/analytics"
	"turnout/deploy/local"
	"turnout/deploy/sim"
	"turnout/gateway"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/migrations"
	"turnout/processor"
	"turnout/schemas/topic"
)

// engineStop is what engines get to end by themselves.
const engineStop = time.Second

// Stack is everything, running.
type Stack struct {
	Ports      map[string]int // as in DIR/ports.json
	Key        string         // token of the project "demo"
	GatewayURL string
	Joined     []string // real providers that joined
	ClickHouse chx.Config
	Sim        *sim.Server

	cfg    Config
	log    *slog.Logger
	stops  []func() // in order of starting; run from the last
	failed chan error
}

// Options are what a caller may add.
type Options struct {
	Only *sim.Project // instead of the project "demo"; KeyHash is filled in
}

// Start brings the stack up and returns when the gateway is ready. On an error everything that was
// started is stopped again.
func Start(ctx context.Context, cfg Config, env lifecycle.Env, log *slog.Logger, o Options) (_ *Stack, err error) {
	s := &Stack{cfg: cfg, log: log, Ports: map[string]int{}, failed: make(chan error, 8)}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := s.engines(ctx); err != nil {
		return nil, err
	}
	if err := s.schema(ctx); err != nil {
		return nil, err
	}
	if err := s.simulate(); err != nil {
		return nil, err
	}
	if err := s.resources(env, o); err != nil {
		return nil, err
	}
	s.run("processor", s.processor)
	s.run("analytics", s.analytics)
	s.run("gateway", s.gateway)
	s.GatewayURL = "http://" + s.cfg.Listen
	if err := s.writePorts(); err != nil {
		return nil, err
	}
	return s, s.awaitReady(ctx)
}

// Failed yields the error of a component that ended by itself.
func (s *Stack) Failed() <-chan error { return s.failed }

// Stop ends everything in the reverse of the order of starting: gateway (which drains its spool),
// analytics, processor, simulators, engines.
func (s *Stack) Stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
	s.stops = nil
}

// prepare makes the data folder, takes it for itself, and settles on ports.
func (s *Stack) prepare() error {
	data, err := filepath.Abs(s.cfg.Data)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	s.cfg.Data = data
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	release, err := lock(filepath.Join(data, "lock"))
	if err != nil {
		return fmt.Errorf("data: %s is in use by another `turnout dev`: stop it, or give --data another folder", data)
	}
	s.stops = append(s.stops, release)
	if s.cfg.Spool.Dir == "" {
		s.cfg.Spool.Dir = filepath.Join(data, "spool")
	}
	var taken []error
	for _, l := range s.cfg.listeners() {
		if err := settle(l); err != nil {
			taken = append(taken, err)
		}
	}
	return errors.Join(taken...)
}

// settle turns port 0 into a free one and says which flag moves a port that is taken.
func settle(l listener) error {
	ln, err := net.Listen("tcp", *l.address)
	if err != nil {
		if _, port, split := net.SplitHostPort(*l.address); split == nil && strings.Contains(err.Error(), "in use") {
			return fmt.Errorf("port %s is in use: free it, or choose another with --%s 127.0.0.1:PORT", port, l.key)
		}
		return fmt.Errorf("%s: %w", l.key, err)
	}
	*l.address = ln.Addr().String()
	return ln.Close()
}

// engines starts both at once: each takes a fraction of a second.
func (s *Stack) engines(ctx context.Context) error {
	var wg sync.WaitGroup
	var kafkaErr, clickhouseErr error
	var kafka *local.Kafka
	var clickhouse *local.Server
	if s.cfg.runs(engineKafka) {
		wg.Go(func() {
			port, _ := enginePort("kafka.brokers", first(s.cfg.Kafka.Brokers)) // Validate has looked
			kafka, kafkaErr = local.StartKafka(ctx, local.KafkaOptions{Dir: filepath.Join(s.cfg.Data, "kafka"), Port: port, Flag: "--kafka.brokers"})
		})
	}
	if s.cfg.runs(engineClickHouse) {
		wg.Go(func() {
			native, _ := enginePort("clickhouse.addr", first(s.cfg.ClickHouse.Addr))
			http, _ := enginePort("clickhouse.http", s.cfg.ClickHouse.HTTP)
			clickhouse, clickhouseErr = local.StartClickHouse(ctx, local.Options{
				Dir: filepath.Join(s.cfg.Data, "clickhouse"), HTTPPort: http, NativePort: native,
				HTTPFlag: "--clickhouse.http", NativeFlag: "--clickhouse.addr", Lib: s.cfg.ChdbLib,
			})
		})
	}
	wg.Wait()
	if kafka != nil {
		s.stops = append(s.stops, func() { stopEngine(kafka.Stop) })
		s.cfg.Kafka.Brokers = kafka.Config().Brokers
	}
	if clickhouse != nil {
		s.stops = append(s.stops, func() { stopEngine(clickhouse.Stop) })
		s.cfg.ClickHouse = clickhouse.Config()
		s.cfg.ClickHouse.HTTP = "http://" + clickhouse.HTTPAddr()
	}
	s.ClickHouse = s.cfg.ClickHouse
	return errors.Join(kafkaErr, clickhouseErr)
}

func stopEngine(stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineStop)
	defer cancel()
	_ = stop(ctx) // it is killed when the time is over
}

// schema creates topics and migrates, with the retention that was asked for, side by side.
func (s *Stack) schema(ctx context.Context) error {
	var wg sync.WaitGroup
	var topicsErr, migrateErr error
	wg.Go(func() {
		client, err := kafkax.Open(s.cfg.Kafka, s.log)
		if err != nil {
			topicsErr = err
			return
		}
		defer client.Close()
		_, topicsErr = client.EnsureTopics(ctx, topic.Specs(partitions))
	})
	wg.Go(func() {
		_, _, migrateErr = migrations.Up(ctx, s.cfg.ClickHouse)
		// Elsewhere rows may be somebody's who keeps them for longer: `turnout migrate` is asked for that.
		if migrateErr == nil && s.cfg.runs(engineClickHouse) {
			_, migrateErr = s.cfg.Retention.Apply(ctx, s.cfg.ClickHouse)
		}
	})
	wg.Wait()
	return errors.Join(topicsErr, migrateErr)
}

func (s *Stack) simulate() error {
	server, err := sim.New(sim.Options{Seed: s.cfg.Sim.Seed, Ledger: filepath.Join(s.cfg.Data, "sim-ledger.jsonl")})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", s.cfg.Sim.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("sim.listen: %w", err), server.Close())
	}
	server.Start(ln)
	s.Sim = server
	s.stops = append(s.stops, func() {
		if err := server.Close(); err != nil {
			s.log.Warn("stopping simulated providers", "error", err)
		}
	})
	return nil
}

// run starts a component; its stop cancels it and waits.
func (s *Stack) run(name string, component func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := component(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("ended by itself")
		}
		if err != nil {
			s.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
	s.stops = append(s.stops, func() {
		cancel()
		<-done
	})
}

func (s *Stack) gateway(ctx context.Context) error {
	cfg := s.cfg.Config
	if err := cfg.Validate(); err != nil {
		return err
	}
	return gateway.Run(ctx, cfg, s.log.With("component", "gateway"))
}

func (s *Stack) processor(ctx context.Context) error {
	cfg := processor.DefaultConfig()
	cfg.Retention = s.cfg.Retention
	cfg.Processor.Listen, cfg.Kafka, cfg.ClickHouse, cfg.ShutdownTimeout = s.cfg.Processor.Listen, s.cfg.Kafka, s.cfg.ClickHouse, s.cfg.ShutdownTimeout
	p, err := processor.New(cfg, s.log.With("component", "processor"), telemetry.NewMetrics())
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

func (s *Stack) analytics(ctx context.Context) error {
	cfg := analytics.Default()
	cfg.Analytics.Listen, cfg.ClickHouse, cfg.Shutdown = s.cfg.Analytics.Listen, s.cfg.ClickHouse, time.Second
	return analytics.Run(ctx, cfg, s.log.With("component", "analytics"))
}

// writePorts leaves what listens where in DIR/ports.json, and in DIR/turnout.yaml the settings that
// other commands need to reach it.
func (s *Stack) writePorts() error {
	for name, address := range map[string]string{
		"gateway": s.cfg.Listen, "admin": s.cfg.AdminListen, "analytics": s.cfg.Analytics.Listen, "processor": s.cfg.Processor.Listen,
		"sim": s.cfg.Sim.Listen, "kafka": first(s.cfg.Kafka.Brokers), "clickhouse_native": first(s.cfg.ClickHouse.Addr), "clickhouse_http": s.cfg.ClickHouse.HTTP,
	} {
		port, err := enginePort(name, address)
		if err != nil {
			continue // a server elsewhere has no port here
		}
		s.Ports[name] = port
	}
	ports, err := json.MarshalIndent(s.Ports, "", "  ")
	if err != nil {
		return fmt.Errorf("writing ports.json: %w", err)
	}
	settings := fmt.Sprintf("# Written by turnout dev: how to reach what it started.\nkafka:\n  brokers: [%q]\nclickhouse:\n  addr: [%q]\n  database: %q\n  username: %q\n  password: %q\ntopics:\n  partitions: %d\n",
		first(s.cfg.Kafka.Brokers), first(s.cfg.ClickHouse.Addr), s.cfg.ClickHouse.Database, s.cfg.ClickHouse.Username, s.cfg.ClickHouse.Password.Reveal(), partitions)
	return errors.Join(
		os.WriteFile(filepath.Join(s.cfg.Data, "ports.json"), append(ports, '\n'), 0o600),
		os.WriteFile(filepath.Join(s.cfg.Data, "turnout.yaml"), []byte(settings), 0o600),
	)
}

// awaitReady asks until the gateway is ready, a component fails, or ctx ends.
func (s *Stack) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	reasons := []string{"it does not answer"}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.GatewayURL+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("asking the gateway: %w", err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			var answer struct {
				Reasons []string `json:"reasons"`
			}
			if json.NewDecoder(resp.Body).Decode(&answer) == nil && len(answer.Reasons) > 0 {
				reasons = answer.Reasons
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the gateway is not ready: %s", strings.Join(reasons, "; "))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

const project = "demo"

// token returns the API key of this data folder, made on first use.
func token(path string, random func([]byte) error) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the API key: %w", err)
	}
	raw := make([]byte, 20)
	if err := random(raw); err != nil {
		return "", fmt.Errorf("making an API key: %w", err)
	}
	made := "to-" + hex.EncodeToString(raw)
	if err := os.WriteFile(path, []byte(made+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keeping the API key: %w", err)
	}
	return made, nil
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
