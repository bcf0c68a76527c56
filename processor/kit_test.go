package processor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	os.Exit(testkit.Run(m))
}

// world is a broker with Turnout's topics and a migrated database.
type world struct {
	t     testing.TB
	kafka kafkax.Config
	ch    chx.Config

	client *kafkax.Client
	conn   *chx.Conn
}

func newWorld(t testing.TB, partitions int) *world {
	t.Helper()
	return worldOn(t, kafkatest.New(t, partitions), chtest.New(t))
}

func worldOn(t testing.TB, kafka kafkax.Config, ch chx.Config) *world {
	t.Helper()
	if _, _, err := migrations.Up(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	client, err := kafkax.Open(kafka, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	conn, err := chx.Open(ch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &world{t: t, kafka: kafka, ch: ch, client: client, conn: conn}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (w *world) config() Config {
	cfg := DefaultConfig()
	cfg.Processor.Listen = "127.0.0.1:0"
	cfg.Kafka, cfg.ClickHouse = w.kafka, w.ch
	cfg.ShutdownTimeout = 5 * time.Second
	return cfg
}

// run starts a processor in this process; the function stops it and waits.
func (w *world) run(change ...func(*Processor)) (*Processor, func()) {
	w.t.Helper()
	p, err := New(w.config(), logTo(w.t), telemetry.NewMetrics())
	if err != nil {
		w.t.Fatal(err)
	}
	p.batchDelay, p.publishInterval = 50*time.Millisecond, 300*time.Millisecond
	for _, f := range change {
		f(p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.t.Errorf("processor: %v", err)
			}
		case <-time.After(20 * time.Second):
			w.t.Error("the processor does not stop")
		}
	})
	w.t.Cleanup(stop)
	return p, stop
}

type testLog struct {
	mu  sync.Mutex
	t   testing.TB
	end bool
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.end {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func logTo(t testing.TB) *slog.Logger {
	l := &testLog{t: t}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end = true
	})
	return slog.New(slog.NewTextHandler(l, nil))
}

var (
	providers = []string{"alpha", "beta", "gamma"}
	outcomes  = []attempt.Outcome{attempt.Completed, attempt.Completed, attempt.Completed, attempt.UpstreamError, attempt.ClientError, attempt.Canceled, attempt.NetworkError, attempt.UpstreamTimeout}
)

// event makes an attempt that ended at a time.
func event(rng *rand.Rand, at time.Time) *attempt.Event {
	id, _ := uuid.NewV7()
	request, _ := uuid.NewV7()
	ttft := int64(1000 * (1 + rng.IntN(900)))
	duration := ttft + int64(rng.IntN(2_000_000))
	e := &attempt.Event{
		SchemaVersion: 1, EventID: id.String(), RequestID: request.String(), SpanID: fmt.Sprintf("%016x", rng.Uint64()), Purpose: attempt.PurposeRequest,
		AttemptNo: 1, ModelAttemptNo: 1, NodeID: "node-1", OrganizationID: "acme", ProjectID: fmt.Sprintf("project-%d", rng.IntN(3)), APIKeyID: "key-1",
		RequestedModel: "m", Endpoint: attempt.EndpointChat, Stream: rng.IntN(2) == 0, Provider: providers[rng.IntN(len(providers))], Model: "m", UpstreamModel: "m-upstream",
		CredentialSource: attempt.Platform, Reason: "weighted-score", Propensity: 1, Seed: rng.Uint64(), AlgorithmVersion: 1, ConsideredTotal: 2,
		StartedAt: at.Add(-time.Duration(duration) * time.Microsecond).UTC().Truncate(time.Microsecond), FinishedAt: at.UTC().Truncate(time.Microsecond),
		DurationUS: duration, Outcome: outcomes[rng.IntN(len(outcomes))], StatusCode: 200,
		InputTokens: int64(rng.IntN(5000)), PriceVersion: "p1", CostNanoUSD: int64(rng.IntN(1_000_000)),
	}
	if rng.IntN(3) == 0 {
		e.Region = "eu"
	}
	if rng.IntN(10) == 0 {
		e.CredentialSource = attempt.BYOK
	}
	switch e.Outcome {
	case attempt.Completed:
		e.OutputTokens = int64(1 + rng.IntN(800))
		if e.Stream {
			e.TTFTUS = &ttft
		}
		score := 0.25
		e.Considered = []attempt.Considered{{Provider: "alpha", Score: &score, Price: 1.5, Priority: 1}, {Provider: "beta", ExcludedCode: "context_size"}}
	case attempt.UpstreamError:
		e.StatusCode, e.WillRetry = 429, true
	}
	return e
}

func record(e *attempt.Event, replayed bool) kafkax.Record {
	r := kafkax.Record{Key: []byte(e.RequestID), Value: attempt.Append(nil, e), Time: time.Now()}
	if replayed {
		r.Headers = append(r.Headers, kafkax.Header{Key: topic.HeaderReplayed, Value: []byte("1")})
	}
	return r
}

// write puts records into the attempts topic.
func (w *world) write(records ...kafkax.Record) []kafkax.Ack {
	w.t.Helper()
	acks, err := w.client.NewWriter(topic.Attempts).Write(w.t.Context(), records)
	if err != nil {
		w.t.Fatal(err)
	}
	return acks
}

// writeEvents writes n new events that ended within the last minutes, and returns them.
func (w *world) writeEvents(rng *rand.Rand, n int) []*attempt.Event {
	w.t.Helper()
	events := make([]*attempt.Event, n)
	records := make([]kafkax.Record, n)
	for i := range events {
		events[i] = event(rng, time.Now().Add(-time.Duration(rng.IntN(300_000))*time.Millisecond))
		records[i] = record(events[i], false)
	}
	w.write(records...)
	return events
}

// number returns the single number that a query yields.
func (w *world) number(query string, args ...any) int64 {
	w.t.Helper()
	var n int64
	if err := w.conn.QueryRow(w.t.Context(), "SELECT toInt64((SELECT "+query+"))", args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *world) unique() int64 { return w.number("count() FROM attempts_unique") }

// eventually waits until a condition holds.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(pollEvery)
	}
}

// pollEvery is longer in benchmarks, so that asking does not show in them.
var pollEvery = 50 * time.Millisecond

// caughtUp waits until the stored progress of every partition is the end of its log.
func (w *world) caughtUp(within time.Duration) {
	w.t.Helper()
	partitions, err := w.client.Partitions(context.Background(), topic.Attempts)
	if err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, within, "everything is stored", func() bool {
		var want, have int64
		for p := range partitions {
			_, next, err := w.client.Bounds(context.Background(), topic.Attempts, p)
			if err != nil {
				return false
			}
			want += next
		}
		err := w.conn.QueryRow(context.Background(), "SELECT toInt64(sum(kafka_offset + 1)) FROM folds FINAL WHERE kind = 'progress' AND generation = (SELECT max(generation) FROM fold_generations)").Scan(&have)
		return err == nil && have >= want
	})
}

func textLog(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }
