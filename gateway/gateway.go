// Package gateway wires one gateway node together: this file and config.go are all there is to it,
// the parts are in the packages below.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/internal/emit"
	"turnout/gateway/internal/httpapi"
	"turnout/gateway/internal/poll"
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/anthropic"
	"turnout/gateway/internal/provider/azure"
	"turnout/gateway/internal/provider/bedrock"
	"turnout/gateway/internal/provider/gemini"
	"turnout/gateway/internal/provider/openai"
	"turnout/gateway/internal/provider/vertex"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/schemas/resource"
)

// autoModels are what the model auto chooses from, as far as the catalogue has them (routing.md 10).
var autoModels = []string{"claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"}

// Gateway is one node.
type Gateway struct {
	cfg Config
	log *slog.Logger

	metrics  *telemetry.Metrics
	kafka    *kafkax.Client
	ch       *chx.Conn
	tenants  *tenant.Store
	events   *emit.Log
	state    *state.Store
	poller   *poll.Poller
	versions *versions
	adapters map[string]provider.Adapter
	upstream *provider.Transports
	api      *httpapi.API
	server   *http.Server
	admin    *http.Server

	listener      net.Listener
	adminListener net.Listener

	stopping   atomic.Bool
	configRead atomic.Pointer[string] // why the configuration topic was not read yet; nil: it was
	reported   struct {
		sync.Mutex
		problems []tenant.Problem // of the resources in use, as the log has them
	}
}

// Ids are made on every request. The switch is not safe once goroutines make ids, so it is thrown
// before there are any.
func init() { uuid.EnableRandPool() }

// Main is `turnout gateway`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	cfg.ExplorationRate, _ = env.Lookup("EXPLORATION_RATE")
	result, err := config.Load("gateway", &cfg, env, known)
	if err != nil {
		return err
	}
	if result.CheckOnly {
		if _, err := resource.ParseFiles(cfg.Resources); err != nil {
			return lifecycle.Usage(err)
		}
		_, _ = fmt.Fprintln(env.Stdout, "settings and resources are well")
		return nil
	}
	g, err := New(cfg, cfg.Log.New(env.Stderr), env.Lookup)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}

// Run is New and Gateway.Run, with the process's own environment for secrets.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	g, err := New(cfg, log, os.LookupEnv)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}

// nodeClock is the node's clock; tests set it wrong.
var nodeClock = time.Now

// New puts a node together. It touches the disk, for the spool and the resources, and no network.
// lookup gives the environment variables that secrets and base URLs name.
func New(cfg Config, log *slog.Logger, lookup func(string) (string, bool)) (_ *Gateway, err error) {
	if cfg.NodeID == "" {
		cfg.NodeID = hostname()
	}
	exploration, err := cfg.exploration()
	if err != nil {
		return nil, err
	}
	hashKey, err := hashKey(cfg)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, log: log, metrics: telemetry.NewMetrics()}
	notYet := "the configuration topic has not been read yet"
	g.configRead.Store(&notYet)
	defer func() {
		if err != nil {
			g.release(context.Background())
		}
	}()

	g.upstream = provider.NewTransports(nil)
	g.adapters = map[string]provider.Adapter{
		resource.ProtocolOpenAI:    openai.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
		resource.ProtocolAnthropic: anthropic.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
		resource.ProtocolGemini:    gemini.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
		resource.ProtocolAzure:     azure.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
		resource.ProtocolVertex:    vertex.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
		resource.ProtocolBedrock:   bedrock.New(g.upstream, "turnout/"+lifecycle.Version, time.Now),
	}
	g.versions = newVersions(filepath.Join(filepath.Dir(filepath.Clean(cfg.Spool.Dir)), "versions"), log)
	if g.tenants, err = tenant.Open(cfg.Resources, tenant.Options{
		Lookup:   lookup,
		OnChange: g.resourcesChanged,
		OnError:  func(err error) { log.Error("resources refused, the last good ones stay", "error", err) },
	}); err != nil {
		return nil, err
	}
	g.versions.note(g.tenants.Current())
	g.reportProblems(g.tenants.Current())
	if g.kafka, err = kafkax.Open(cfg.Kafka, log); err != nil {
		return nil, err
	}
	if g.ch, err = chx.Open(cfg.ClickHouse); err != nil {
		return nil, err
	}
	g.poller = poll.New(g.ch, cfg.PollInterval, nodeClock, log)
	if g.state, err = state.New(state.Config{NodeID: cfg.NodeID, HashKey: hashKey, Now: g.poller.Now, Log: log}); err != nil {
		return nil, err
	}
	if g.events, err = emit.Open(cfg.Spool, g.kafka, log, g.metrics); err != nil {
		return nil, err
	}
	g.events.OnAck(g.poller.Acked)
	observer := g.observe()
	d := dispatch.New(dispatch.Config{
		NodeID: cfg.NodeID, Exploration: exploration, AutoModels: autoModels,
		Log: log, Observe: observer.attempt,
	}, g.tenants, g.events, g.state, g.poller, g.adapters)
	g.api, g.server = httpapi.New(httpapi.Config{
		Limits: cfg.limits, MaxBodyBytes: cfg.MaxBodyBytes, MaxInFlight: cfg.MaxInFlight, HeartbeatAfter: cfg.HeartbeatAfter, HeartbeatEvery: cfg.HeartbeatEvery,
		Version: lifecycle.Version, Log: log, Ready: g.Ready, Notes: g.notes, Observe: observer.request,
	}, d)
	g.admin = httpapi.NewAdmin(&admin{g}, g.metrics.Handler(), cfg.AdminToken.Reveal(), log)
	return g, nil
}

// Run serves until ctx ends, and stops in this order:
//
//  1. the node says that it is not ready,
//  2. and waits drain_delay for balancers to notice;
//  3. it stops accepting,
//  4. lets running requests end within shutdown_timeout,
//  5. and cancels the rest, each of which still records its end;
//  6. the spool is drained into Kafka for a moment: what stays is on the disk and the next node's;
//  7. the state topic, the poller and the resource files are let go, and the caches closed;
//  8. the admin address goes last, so that the stop can be watched.
func (g *Gateway) Run(ctx context.Context) error {
	err := g.listen(ctx)
	if err != nil {
		g.release(context.Background())
		return err
	}
	requests, cancelRequests := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelRequests(nil)
	g.server.BaseContext = func(net.Listener) context.Context { return requests }
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	var running sync.WaitGroup
	running.Go(func() { g.state.Run(background, g.kafka) })
	running.Go(func() { g.poller.Run(background) })
	running.Go(func() { g.readConfig(background) })
	running.Go(func() { g.publishProfiles(background) })
	running.Go(func() { g.tellVersions(background) })
	running.Go(func() { g.greet(background) })

	ended := make(chan error, 2)
	serve := func(name string, s *http.Server, l net.Listener) {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			ended <- fmt.Errorf("serving %s: %w", name, err)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() { serve("clients", g.server, g.listener) })
	serving.Go(func() { serve("admin", g.admin, g.adminListener) })
	g.log.Info("listening", "listen", g.listener.Addr().String(), "admin_listen", g.adminListener.Addr().String(), "node_id", g.cfg.NodeID)

	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	g.stopping.Store(true)                      // 1
	err = pause(g.cfg.DrainDelay, ended, err)   // 2
	g.shutdown(g.server, g.cfg.ShutdownTimeout) // 3, 4
	cancelRequests(dispatch.ErrShutdown)        // 5
	g.shutdown(g.server, cancelGrace)
	_ = g.server.Close()
	g.awaitHandlers(cancelGrace)
	drain, cancel := context.WithTimeout(context.Background(), g.drainTime()) // 6
	defer cancel()
	if left := g.events.Close(drain); left != nil {
		g.log.Warn("stopping", "error", left)
	}
	stopBackground() // 7
	running.Wait()
	g.shutdown(g.admin, time.Second) // 8
	_ = g.admin.Close()
	serving.Wait()
	g.release(drain)
	g.log.Info("stopped")
	return err
}

// awaitHandlers waits until no handler runs: the event log may not be closed under one.
func (g *Gateway) awaitHandlers(limit time.Duration) {
	for deadline := time.Now().Add(limit); g.api.InFlight() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// listen takes the addresses, once.
func (g *Gateway) listen(ctx context.Context) (err error) {
	if g.listener != nil {
		return nil
	}
	if g.listener, err = httpapi.Listen(ctx, g.cfg.Listen, g.cfg.limits); err != nil {
		return fmt.Errorf("listen: %w (another address: --listen)", err)
	}
	if g.adminListener, err = httpapi.Listen(ctx, g.cfg.AdminListen, httpapi.DefaultLimits()); err != nil {
		_ = g.listener.Close()
		return fmt.Errorf("admin_listen: %w (another address: --admin-listen)", err)
	}
	return nil
}

const cancelGrace = 2 * time.Second

func (g *Gateway) drainTime() time.Duration {
	return min(max(g.cfg.ShutdownTimeout/4, time.Second), 5*time.Second)
}

func (g *Gateway) shutdown(s *http.Server, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && g.api.InFlight() > 0 {
		g.log.Warn("requests still run", "in_flight", g.api.InFlight(), "after", limit.String())
	}
}

// release frees what New took, as far as it came.
func (g *Gateway) release(ctx context.Context) {
	if g.events != nil {
		_ = g.events.Close(ctx)
	}
	if g.upstream != nil {
		g.upstream.CloseIdle()
	}
	if g.state != nil {
		g.state.Close()
	}
	if g.tenants != nil {
		g.tenants.Close()
	}
	if g.ch != nil {
		_ = g.ch.Close()
	}
	if g.kafka != nil {
		g.kafka.Close()
	}
}

// pause waits for balancers, unless a listener has failed, which err says.
func pause(d time.Duration, ended <-chan error, err error) error {
	if d <= 0 || err != nil {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case err = <-ended:
		return err
	}
}

func (g *Gateway) resourcesChanged(v *tenant.View) {
	g.log.Info("resources changed", "models", len(v.Set.Models), "providers", len(v.Set.Providers), "projects", len(v.Set.Projects))
	g.versions.note(v)
	g.reportProblems(v)
}

// reportProblems says what is configured but not served, once: a catalogue has many providers that a host
// has no key for, and files change often.
func (g *Gateway) reportProblems(v *tenant.View) {
	problems := slices.Clone(v.Problems)
	for i := range v.Set.Providers {
		if p := &v.Set.Providers[i]; g.adapters[p.Protocol] == nil {
			problems = append(problems, tenant.Problem{Subject: "provider " + p.ID, Message: "protocol " + p.Protocol + " is not spoken by this version"})
		}
	}
	g.reported.Lock()
	defer g.reported.Unlock()
	for _, p := range problems {
		if !slices.Contains(g.reported.problems, p) {
			g.log.Warn("left out", "subject", p.Subject, "problem", p.Message)
		}
	}
	g.reported.problems = problems
}
