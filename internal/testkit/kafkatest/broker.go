package kafkatest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"turnout/deploy/local"
	"turnout/internal/kafkax"
)

const stopTimeout = 5 * time.Second

// engine is what a Broker drives. Start after Stop or Kill keeps address and data.
type engine interface {
	Config() kafkax.Config
	Start() error
	Stop(ctx context.Context) error
	Kill()
	Pause() error
	Resume() error
}

// Broker is a broker whose outages a test can stage. Address and data stay the same over them.
type Broker struct {
	t      testing.TB
	engine engine
}

// Start returns a broker that has Turnout's topics, as New does.
func Start(t testing.TB, partitions int) *Broker {
	t.Helper()
	switch choice := os.Getenv(Variable); choice {
	case "":
		e := &embedded{options: local.KafkaOptions{Dir: t.TempDir()}}
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		createTopics(t, e.Config(), partitions)
		return &Broker{t: t, engine: e}
	case "apache":
		return startApache(t, partitions)
	default:
		cfg := kafkax.Default()
		cfg.Brokers = strings.Split(choice, ",")
		takeTurn(t)
		renewTopics(t, cfg, partitions)
		return &Broker{t: t, engine: elsewhere{cfg: cfg}}
	}
}

// Config reaches the broker, whether it runs or not.
func (b *Broker) Config() kafkax.Config { return b.engine.Config() }

// Start starts the broker again after Stop or Kill.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.engine.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// Stop ends the broker in good order.
func (b *Broker) Stop() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := b.engine.Stop(ctx); err != nil {
		b.t.Fatal(err)
	}
}

// Kill ends the broker with SIGKILL.
func (b *Broker) Kill() { b.engine.Kill() }

// Pause stops the broker with SIGSTOP: connections stay open and nothing answers.
func (b *Broker) Pause() {
	b.t.Helper()
	if err := b.engine.Pause(); err != nil {
		b.t.Fatal(err)
	}
}

// Resume lets a paused broker go on.
func (b *Broker) Resume() {
	b.t.Helper()
	if err := b.engine.Resume(); err != nil {
		b.t.Fatal(err)
	}
}

type embedded struct {
	options local.KafkaOptions
	kafka   *local.Kafka
}

func (e *embedded) Config() kafkax.Config { return e.kafka.Config() }

func (e *embedded) Start() error {
	kafka, err := local.StartKafka(context.Background(), e.options)
	if err != nil {
		return err
	}
	e.kafka, e.options.Port = kafka, kafka.Port()
	return nil
}

func (e *embedded) Stop(ctx context.Context) error { return e.kafka.Stop(ctx) }
func (e *embedded) Kill()                          { e.kafka.Kill() }
func (e *embedded) Pause() error                   { return e.kafka.Pause() }
func (e *embedded) Resume() error                  { return e.kafka.Resume() }
