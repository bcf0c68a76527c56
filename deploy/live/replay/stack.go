package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/local"
	"turnout/deploy/sim"
	"turnout/gateway"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/migrations"
	"turnout/processor"
	"turnout/schemas/topic"
)

// stack is a gateway and a processor, both engines, and the simulated providers.
type stack struct {
	url   string
	dir   string
	stops []func() error
}

func (s *stack) stop() error {
	var failed []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		failed = append(failed, s.stops[i]())
	}
	return errors.Join(append(failed, os.RemoveAll(s.dir))...)
}

func tokenOf(way string) string { return "to-replay-" + way + "-000000000000000000000000" }

// start brings everything up and returns when the gateway is ready. On an error the caller stops what
// was started.
func start(ctx context.Context, providers []sim.Provider) (*stack, error) {
	dir, err := os.MkdirTemp("", "turnout-replay-")
	s := &stack{dir: dir}
	if err != nil {
		return s, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kafka, err := local.StartKafka(ctx, local.KafkaOptions{Dir: filepath.Join(dir, "kafka")})
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, func() error { return kafka.Stop(context.WithoutCancel(ctx)) })
	clickhouse, err := local.StartClickHouse(ctx, local.Options{Dir: filepath.Join(dir, "clickhouse")})
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, func() error { return clickhouse.Stop(context.WithoutCancel(ctx)) })
	if _, _, err := migrations.Up(ctx, clickhouse.Config()); err != nil {
		return s, err
	}
	client, err := kafkax.Open(kafka.Config(), log)
	if err != nil {
		return s, err
	}
	defer client.Close()
	if _, err := client.EnsureTopics(ctx, topic.Specs(3)); err != nil {
		return s, err
	}
	resources, err := s.simulate(providers)
	if err != nil {
		return s, err
	}

	pc := processor.DefaultConfig()
	pc.Processor.Listen, pc.Kafka, pc.ClickHouse = "127.0.0.1:0", kafka.Config(), clickhouse.Config()
	p, err := processor.New(pc, log, telemetry.NewMetrics())
	if err != nil {
		return s, err
	}
	s.background(ctx, p.Run)

	gc := gateway.DefaultConfig()
	if gc.Listen, err = process.FreeAddress(); err != nil {
		return s, err
	}
	gc.AdminListen = "127.0.0.1:0"
	gc.Resources = []string{resources}
	gc.Spool.Dir, gc.Spool.Fsync = filepath.Join(dir, "spool"), "never"
	gc.Kafka, gc.ClickHouse = kafka.Config(), clickhouse.Config()
	gc.PollInterval, gc.ShutdownTimeout = 5*time.Second, 3*time.Second
	s.url = "http://" + gc.Listen
	s.background(ctx, func(ctx context.Context) error { return gateway.Run(ctx, gc, log) })
	return s, process.AwaitOK(ctx, "the gateway", s.url+"/readyz")
}

// background runs a component until the stack stops.
func (s *stack) background(ctx context.Context, component func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- component(ctx) }()
	s.stops = append(s.stops, func() error {
		cancel()
		return <-done
	})
}

// simulate starts the providers and writes the resources that name them.
func (s *stack) simulate(providers []sim.Provider) (path string, err error) {
	server, err := sim.New(sim.Options{Seed: 1, Providers: providers})
	if err != nil {
		return "", err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server.Start(ln)
	s.stops = append(s.stops, server.Close)
	secret, err := sim.WriteKeys(filepath.Join(s.dir, "keys"))
	if err != nil {
		return "", err
	}
	o := sim.ResourceOptions{BaseURL: "http://" + ln.Addr().String(), Providers: providers, Secret: secret}
	for _, w := range ways {
		sum := sha256.Sum256([]byte(tokenOf(w.id)))
		o.Projects = append(o.Projects, sim.Project{ID: w.id, KeyHash: "sha256:" + hex.EncodeToString(sum[:]), Strategy: w.strategy, Routing: w.routing})
	}
	data, err := sim.Resources(o)
	if err != nil {
		return "", err
	}
	// The requests are chat, which says what hit rate is expected before any was observed.
	text := strings.Replace(string(data), "workload: api", "workload: chat", 1)
	path = filepath.Join(s.dir, "resources.yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
