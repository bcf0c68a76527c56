// Package processor turns the log of attempts into rows, sums and snapshots in ClickHouse. It keeps
// nothing of its own: whatever is killed, the next owner of a partition goes on from what is stored
// there. docs/architecture.md shows where it stands; pipeline.md 6 to 16 is what it promises.
package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/failpoint"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/migrations"
	"turnout/processor/internal/consume"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/mirror"
	"turnout/processor/internal/publish"
	"turnout/processor/internal/sink"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// group is the consumer group of the attempts topic; those of the other topics are named after it.
const group = "turnout-processor"

const (
	batchRows        = 20_000
	batchDelay       = time.Second
	publishInterval  = 10 * time.Second
	upkeepInterval   = 5 * time.Second
	httpStopTimeout  = time.Second
	profilesPatience = 10 * time.Second // of the first snapshot, for the state topic to be read
	leadingPartition = 0                // its owner publishes: one at a time, and moved by Kafka when it dies
)

// Main is `turnout processor`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	result, err := config.Load("processor", &cfg, env, known)
	if err != nil {
		return err
	}
	if result.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	p, err := New(cfg, cfg.Log.New(env.Stderr), telemetry.NewMetrics())
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// Processor is one process's share of the work.
type Processor struct {
	cfg       Config
	acceptGap map[int]int64
	log       *slog.Logger
	metrics   *telemetry.Metrics
	listener  net.Listener

	kafka    *kafkax.Client
	conn     *chx.Conn
	raw      *chx.Conn // for raw rows alone: see sink.New
	letters  *deadletter.Log
	status   *consume.Status
	profiles *publish.Profiles
	ready    *readiness

	sinkMetrics    *sink.Metrics
	publishMetrics *publish.Metrics
	mirrorMetrics  *mirror.Metrics
	lag            *telemetry.GaugeVec

	// For tests: where to stop, and a group of their own.
	at    func(point string)
	group string

	batchDelay, publishInterval time.Duration
}

// New prepares a processor and listens; nothing else is connected yet.
func New(cfg Config, log *slog.Logger, metrics *telemetry.Metrics) (*Processor, error) {
	acceptGap, err := cfg.acceptGap()
	if err != nil {
		return nil, err
	}
	cfg.Kafka.ClientID = "turnout-processor"
	kafka, err := kafkax.Open(cfg.Kafka, log)
	if err != nil {
		return nil, err
	}
	conn, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return nil, err
	}
	raw, err := chx.Open(cfg.ClickHouse)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Processor.Listen) //nolint:noctx // binding a local port does not wait
	if err != nil {
		return nil, fmt.Errorf("processor.listen: %w; choose another with --processor.listen", err)
	}
	p := &Processor{
		cfg: cfg, acceptGap: acceptGap, log: log, metrics: metrics, listener: listener,
		kafka: kafka, conn: conn, raw: raw, letters: deadletter.New(kafka, conn), status: consume.NewStatus(), profiles: publish.NewProfiles(log),
		sinkMetrics: sink.NewMetrics(metrics), group: group, batchDelay: batchDelay, publishInterval: publishInterval,
		lag: metrics.GaugeVec("turnout_processor_lag_records", "Records of a partition of this process that are not stored yet.", "partition"),
	}
	p.ready = newReadiness(p.status)
	p.publishMetrics, p.mirrorMetrics = publish.NewMetrics(metrics), mirror.NewMetrics(metrics)
	metrics.GaugeFunc("turnout_processor_leader", "1 if this process publishes snapshots.", func() float64 { return number(p.leads()) })
	metrics.GaugeFunc("turnout_processor_partitions", "Partitions of this process.", func() float64 { return float64(len(p.status.Partitions())) })
	metrics.GaugeFunc("turnout_processor_partitions_stopped", "Partitions of this process that cannot go on.", func() float64 { return float64(len(p.status.Stopped())) })
	return p, nil
}

func (p *Processor) leads() bool { return p.status.Owns(leadingPartition) }

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Addr is where /healthz, /readyz and /metrics are.
func (p *Processor) Addr() string { return p.listener.Addr().String() }

func (p *Processor) point(name string) {
	if p.at != nil {
		p.at(name)
	}
	failpoint.Reach(name)
}

// Run works until ctx ends, and then stops in this order:
//  1. say not ready
//  2. stop fetching; leave the consumer group
//  3. store the batch in hand, for at most shutdown_timeout
//  4. tell Kafka how far it got
//  5. close connections and the listener
//
// A processor that cannot reach Kafka or ClickHouse says so and tries on; it does not end.
func (p *Processor) Run(ctx context.Context) error {
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p.listener) }()
	p.log.Info("processor starts", "listen", p.Addr(), "kafka", p.cfg.Kafka.Brokers, "clickhouse", p.cfg.ClickHouse.Addr, "database", p.cfg.ClickHouse.Database)

	err := p.work(ctx)

	p.ready.stopping()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpStopTimeout)
	defer cancel()
	_ = server.Shutdown(stop)
	<-served //nolint:errcheck // the server was just shut down
	p.kafka.Close()
	_ = p.conn.Close()
	_ = p.raw.Close()
	p.log.Info("processor stopped")
	return err
}

func (p *Processor) work(ctx context.Context) error {
	if !p.awaitEngines(ctx) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	publisher := publish.New(publish.Config{Interval: p.publishInterval, Snapshots: p.cfg.Retention.Snapshots, Usage: p.cfg.Retention.UsageHourly, At: p.point}, p.conn, p.leads, p.status.Changed(),
		func() []snapshot.Profile { return p.profiles.Live(time.Now()) }, p.log, p.publishMetrics)
	tasks.Go(func() { p.profiles.Follow(ctx, p.kafka) })
	tasks.Go(func() {
		p.profiles.Await(ctx, profilesPatience)
		publisher.Run(ctx)
	})
	for name, table := range map[string]mirror.Table{p.group + "-requests": mirror.Refusals, p.group + "-config": mirror.Config} {
		copier := &mirror.Copier{Kafka: p.kafka, ClickHouse: p.conn, Letters: p.letters, Log: p.log, Metrics: p.mirrorMetrics, Table: table}
		tasks.Go(func() {
			if err := p.kafka.Consume(ctx, kafkax.Group{ID: name, Topic: table.Topic}, copier.Run); err != nil {
				p.log.Error("a topic is not copied", "topic", table.Topic, "error", err)
			}
		})
	}
	for ctx.Err() == nil {
		if err := p.fold(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fold works on the live generation until ctx ends or another generation is live.
func (p *Processor) fold(ctx context.Context) error {
	var generation uint32
	err := sink.Retry(ctx, p.log, "reading the live generation", func(ctx context.Context) (err error) {
		generation, err = sink.LiveGeneration(ctx, p.conn)
		return err
	})
	if err != nil {
		return nil // ctx ended
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	taking, stopTaking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTaking()
	storing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()

	final := map[int]int64{} // touched by the sink's goroutine alone, until it has ended
	stored := func(partition int, next int64) {
		final[partition] = next
		p.status.Stored(partition, next)
	}
	out := sink.New(sink.Config{Generation: generation, MaxRows: batchRows, MaxDelay: p.batchDelay, Slots: p.cfg.Retention.Slots, Usage: p.cfg.Retention.UsageHourly, At: p.point},
		p.conn, p.raw, p.letters, p.log, p.sinkMetrics, time.Now, stored)
	worker := &consume.Worker{Kafka: p.kafka, ClickHouse: p.conn, Sink: out, Log: p.log, Status: p.status, Generation: generation, AcceptGap: p.acceptGap}
	var tasks sync.WaitGroup
	tasks.Go(func() { out.Run(taking, storing) })
	tasks.Go(func() { p.follow(reading, generation, stopReading) })
	defer context.AfterFunc(ctx, p.ready.stopping)()

	err = p.kafka.Consume(reading, kafkax.Group{ID: p.group, Topic: topic.Attempts}, func(ctx context.Context, partition int) {
		p.point("partition assigned")
		worker.Run(ctx, partition)
	})
	stopReading()
	stopTaking()
	timer := time.AfterFunc(p.cfg.ShutdownTimeout, giveUp)
	defer timer.Stop()
	tasks.Wait()
	p.commit(context.WithoutCancel(ctx), final)
	return err
}

// follow does what has to be done every few seconds while a generation is live: tell Kafka how far the
// partitions are, for tools that show lag, measure that lag, and look whether a replay has taken over.
func (p *Processor) follow(ctx context.Context, generation uint32, flipped func()) {
	ticker := time.NewTicker(upkeepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		progress := p.status.Progress()
		p.commit(ctx, progress)
		p.lag.Reset()
		for partition, next := range progress {
			if _, end, err := p.kafka.Bounds(ctx, topic.Attempts, partition); err == nil {
				p.lag.WithLabelValues(strconv.Itoa(partition)).Set(float64(max(end-next, 0)))
			}
		}
		if live, err := sink.LiveGeneration(ctx, p.conn); err == nil && live != generation {
			p.log.Info("another generation of folds is live", "was", generation, "is", live)
			flipped()
			return
		}
	}
}

func (p *Processor) commit(ctx context.Context, progress map[int]int64) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := p.kafka.Commit(ctx, p.group, topic.Attempts, progress); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Debug("telling kafka how far we are", "error", err) // a hint; nothing rests on it
	}
}

// awaitEngines returns when both engines answer and the schema is there, or false when ctx ends.
func (p *Processor) awaitEngines(ctx context.Context) bool {
	var engines sync.WaitGroup
	engines.Go(func() {
		if sink.Retry(ctx, p.log, "reaching clickhouse", p.schema) == nil {
			p.ready.clickhouse()
		}
	})
	engines.Go(func() {
		err := sink.Retry(ctx, p.log, "reaching kafka", func(ctx context.Context) error {
			err := p.kafka.CheckTopics(ctx, topic.Specs(0))
			p.ready.problem(err)
			return err
		})
		if err == nil {
			p.ready.kafka()
		}
	})
	engines.Wait()
	return ctx.Err() == nil
}

func (p *Processor) schema(ctx context.Context) error {
	return checkSchema(ctx, p.cfg.ClickHouse, p.log)
}

// checkSchema says what to do where the database lacks what this binary needs.
func checkSchema(ctx context.Context, cfg chx.Config, log *slog.Logger) error {
	version, err := migrations.Version(ctx, cfg)
	switch {
	case err != nil:
		return err
	case version < migrations.Latest():
		return fmt.Errorf("database %s has schema version %d, this binary needs %d: run `turnout migrate`", cfg.Database, version, migrations.Latest())
	case version > migrations.Latest():
		log.Warn("the schema is newer than this binary; working on", "schema", version, "binary", migrations.Latest())
	}
	return nil
}
