package emit

import (
	"context"
	"runtime"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/internal/testkit/kafkatest"
)

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Kafka is away for some seconds under load: no call waits, memory stays flat, and afterwards all is
// there once.
func TestKafkaAway(t *testing.T) {
	kafka := kafkatest.Start(t, 3)
	client, err := kafkax.Open(kafka.Config(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l, err := Open(config(t), client, quiet, telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	slowest := time.Duration(0)
	load := func(more int) {
		for range more / 20 {
			for range 20 {
				e := event(3)
				began := time.Now()
				l.Finish(mustStart(t, l, e), ended(e))
				slowest = max(slowest, time.Since(began))
				n++
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	load(1000)
	kafka.Kill()
	away := time.Now()
	load(2 * maxQueued)
	before := heap()
	load(8000)
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("%d bytes more in memory", grown)
	}
	time.Sleep(time.Until(away.Add(3 * time.Second)))
	depth := l.Depth()
	if depth < maxQueued+shipRecords {
		t.Errorf("only %d events waited: the disk was not needed", depth)
	}
	if l.shipper.age() < 2*time.Second {
		t.Errorf("the oldest event is said to have waited %s", l.shipper.age())
	}
	kafka.Start()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events, %d waited, drained in %s, slowest call %s", n, depth, time.Since(began), slowest)
	if events := settle(t, everything(t, kafka.Config())); len(events) != n {
		t.Errorf("%d events, want %d", len(events), n)
	}
}
