package kafkatest

import (
	"context"
	"os"
	"sync"
	"testing"

	"turnout/deploy/kafka"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
)

// apache is the Apache Kafka of this test binary.
var apache = sync.OnceValues(func() (*kafka.Broker, error) {
	dir, err := os.MkdirTemp("", "kafkatest-")
	if err != nil {
		return nil, err
	}
	broker, err := kafka.Start(context.Background(), kafka.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	testkit.AtExit(func() {
		broker.Kill()
		_ = os.RemoveAll(dir)
	})
	return broker, nil
})

func startApache(t testing.TB, partitions int) *Broker {
	t.Helper()
	takeTurn(t)
	broker, err := apache()
	if err != nil {
		t.Fatal(err)
	}
	e := shared{broker}
	if err := e.ensure(); err != nil { // a test before this one may have left it stopped
		t.Fatal(err)
	}
	renewTopics(t, broker.Config(), partitions)
	return &Broker{t: t, engine: e}
}

// shared is the engine of all tests of the binary, one after the other.
type shared struct{ broker *kafka.Broker }

func (s shared) ensure() error {
	select {
	case <-s.broker.Done():
		return s.Start()
	default:
		return s.Resume()
	}
}

func (s shared) Config() kafkax.Config          { return s.broker.Config() }
func (s shared) Start() error                   { return s.broker.Restart(context.Background()) }
func (s shared) Stop(ctx context.Context) error { return s.broker.Stop(ctx) }
func (s shared) Kill()                          { s.broker.Kill() }
func (s shared) Pause() error                   { return s.broker.Pause() }
func (s shared) Resume() error                  { return s.broker.Resume() }
