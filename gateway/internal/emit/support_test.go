package emit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

var quiet = slog.New(slog.DiscardHandler)

// broker stands at the other end of the Writer interface: it can be down, and it can lose answers to
// what has landed.
type broker struct {
	mu      sync.Mutex
	landed  []kafkax.Record
	down    bool
	lose    bool                    // land and answer with an error
	answers func(record int) answer // where set, decides for each
}

type answer int

const (
	takes answer = iota
	loses
	refuses
)

var errDown = errors.New("connection refused")

func (b *broker) Write(ctx context.Context, records []kafkax.Record) ([]kafkax.Ack, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	acks := make([]kafkax.Ack, len(records))
	var failed error
	for i, r := range records {
		a := takes
		switch {
		case b.down:
			a = refuses
		case b.lose:
			a = loses
		case b.answers != nil:
			a = b.answers(i)
		}
		if a != refuses {
			r.Value = append([]byte(nil), r.Value...)
			r.Key = append([]byte(nil), r.Key...)
			headers := append([]kafkax.Header(nil), r.Headers...)
			for i := range headers {
				headers[i].Value = append([]byte(nil), headers[i].Value...)
			}
			r.Headers = headers
			r.Offset = int64(len(b.landed))
			b.landed = append(b.landed, r)
		}
		acks[i].Offset = int64(len(b.landed)) - 1
		if a != takes {
			acks[i] = kafkax.Ack{Offset: -1, Err: errDown}
			failed = errDown
		}
	}
	return acks, failed
}

func (b *broker) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *broker) records() []kafkax.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]kafkax.Record(nil), b.landed...)
}

func header(r kafkax.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// settle applies the processor's rule: of records with one event_id the one at the lowest offset of
// its partition counts, and only marked ones may stand behind it. Records must be in log order.
func settle(t require, records []kafkax.Record) map[string]*attempt.Event {
	t.Helper()
	events := map[string]*attempt.Event{}
	for _, r := range records {
		e, err := attempt.Decode(r.Value)
		if err != nil {
			t.Fatalf("record in Kafka: %v", err)
		}
		if id := header(r, topic.HeaderID); id != e.EventID || string(r.Key) != e.RequestID {
			t.Fatalf("header says %s, key %s, value %s of %s", id, r.Key, e.EventID, e.RequestID)
		}
		if events[e.EventID] == nil {
			events[e.EventID] = e
		} else if header(r, topic.HeaderReplayed) != "1" {
			t.Fatalf("%s stands twice and the second is not marked", e.EventID)
		}
	}
	return events
}

type require interface {
	Helper()
	Fatalf(string, ...any)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func event(considered int) *attempt.Event {
	now := time.Now()
	id := newID()
	e := &attempt.Event{
		SchemaVersion: attempt.SchemaVersion, EventID: id, RequestID: newID(), SpanID: strings.ReplaceAll(id, "-", "")[16:],
		AttemptNo: 1, NodeID: "gw-1", OrganizationID: "org_1", ProjectID: "prj_1", APIKeyID: "key_1", RequestedModel: "gpt-5.4-mini",
		Endpoint: attempt.EndpointChat, Stream: true, PromptTokensEstimate: 1200, Client: "openai-python/2.8.1", Strategy: "auto",
		Provider: "openai", Model: "gpt-5.4-mini", UpstreamModel: "gpt-5.4-mini-2026-08", Region: "eu", CredentialSource: attempt.Platform,
		ProviderKeyHash: "3fa9c01", Reason: "weighted-score", Propensity: .991, Seed: 12345678901234567, AlgorithmVersion: 1,
		SnapshotID: "0197d000-0000-7000-8000-000000000001", ConfigVersion: "c8f1d20b7a91e3f4", ConsideredTotal: considered, StartedAt: now.UTC(),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	for i := range considered {
		score, uptime, speed := float64(i)*.123457, 99.1234-float64(i), 81.2345+float64(i)
		e.Considered = append(e.Considered, attempt.Considered{
			Provider: fmt.Sprintf("provider-%d", i), Region: "eu", Score: &score, Price: .375, Uptime: &uptime, Latency: &speed, Throughput: &speed, Priority: 1,
		})
	}
	return e
}

// ended returns e as its attempt ends.
func ended(e *attempt.Event) *attempt.Event {
	c := *e
	ttft := int64(210_000)
	c.FinishedAt = e.StartedAt.Add(800 * time.Millisecond)
	c.Outcome, c.ErrorType, c.StatusCode, c.FinishReason = attempt.Completed, "none", 200, "stop"
	c.TTFTUS, c.DurationUS, c.OverheadUS = &ttft, 800_000, 95
	c.InputTokens, c.CachedInputTokens, c.OutputTokens, c.UsageSource = 1180, 400, 220, attempt.UsageReported
	c.PriceVersion, c.CostNanoUSD, c.CostInputNanoUSD, c.CostOutputNanoUSD = "p51a9be7c20d4f613", 309_000, 177_000, 132_000
	c.BaselineKind, c.BaselineModel, c.BaselineProvider, c.BaselineNanoUSD = "provider", e.Model, "azure", 400_000
	return &c
}

func config(t testing.TB) Config {
	cfg := Default()
	cfg.Dir, cfg.Fsync = t.TempDir(), FsyncNever
	return cfg
}

func openLog(t testing.TB, cfg Config, b *broker) *Log { return openWith(t, cfg, b) }

func openWith(t testing.TB, cfg Config, w Writer) *Log {
	t.Helper()
	l, err := open(cfg, w, w, quiet, telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(expired()) })
	return l
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func mustStart(t testing.TB, l *Log, e *attempt.Event) Ticket {
	t.Helper()
	ticket, err := l.Start(e)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func segmentsOf(t require, root string) (files []string, bytes int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "*"+segmentSuffix))
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	return files, bytes
}

func shipAll(t testing.TB, dir string, b *broker) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	report, err := shipDir(ctx, dir, newSender(b, b, quiet, newMetrics(telemetry.NewMetrics())))
	if err != nil {
		t.Fatal(err)
	}
	return report
}
