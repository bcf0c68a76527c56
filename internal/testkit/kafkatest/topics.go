package kafkatest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"turnout/deploy/local"
	"turnout/internal/kafkax"
	"turnout/schemas/topic"
)

func createTopics(t testing.TB, cfg kafkax.Config, partitions int) {
	t.Helper()
	withClient(t, cfg, func(ctx context.Context, client *kafkax.Client) error {
		_, err := client.EnsureTopics(ctx, topic.Specs(partitions))
		return err
	})
}

// renewTopics deletes Turnout's topics and makes them again.
func renewTopics(t testing.TB, cfg kafkax.Config, partitions int) {
	t.Helper()
	var names []string
	for _, spec := range topic.Specs(partitions) {
		names = append(names, spec.Name)
	}
	withClient(t, cfg, func(ctx context.Context, client *kafkax.Client) error {
		return client.DeleteTopics(ctx, names)
	})
	createTopics(t, cfg, partitions)
}

func withClient(t testing.TB, cfg kafkax.Config, do func(context.Context, *kafkax.Client) error) {
	t.Helper()
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// A broker that has just started, or is short of time, says for a while that it is not there.
	for {
		err := do(ctx, client)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

var turn sync.Mutex

// takeTurn gives the one broker to this test until it ends.
func takeTurn(t testing.TB) {
	turn.Lock()
	t.Cleanup(turn.Unlock)
}

// elsewhere is a cluster that somebody else runs.
type elsewhere struct{ cfg kafkax.Config }

var errElsewhere = errors.New("this test stages an outage, which the cluster of " + Variable + " cannot have: leave it empty or set it to apache")

func (e elsewhere) Config() kafkax.Config      { return e.cfg }
func (e elsewhere) Start() error               { return errElsewhere }
func (e elsewhere) Stop(context.Context) error { return errElsewhere }
func (e elsewhere) Kill()                      { panic(errElsewhere) }
func (e elsewhere) Pause() error               { return errElsewhere }
func (e elsewhere) Resume() error              { return errElsewhere }

// DeleteRecords makes a partition begin at an offset, as if what stood before had expired.
func DeleteRecords(t testing.TB, cfg kafkax.Config, topic string, partition int, before int64) {
	t.Helper()
	if err := local.DeleteRecords(context.Background(), cfg.Brokers, topic, partition, before); err != nil {
		t.Fatal(err)
	}
}
