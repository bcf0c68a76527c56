package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

const (
	historyAttempts = 3000
	nodeRate        = 20 // requests/s
	firstCalls      = 20 // a node's calls of the failing provider before it must have noticed
	otherNodeAfter  = 5 * time.Second
	maxShare        = 0.25
)

// After an hour of health the first choice starts to fail four of five calls. A node has left it after
// its first 20 requests to it, and every node 5 s after the start, without waiting for a snapshot.
func TestTrafficLeavesAFailingProvider(t *testing.T) {
	t.Parallel()
	// The window may begin late, when the node makes its last call of the first twenty.
	watched, late := 10*time.Second, otherNodeAfter+time.Second
	if full {
		watched, late = 30*time.Second, 4*otherNodeAfter
	}
	s := newSystem(t, parts{providers: paced(sim.Fixed(20), sim.Fixed(400))})
	s.processor("processor")
	victim := sim.Default()[0].ID // the cheapest; history shows all alike
	s.replayHistory(victim)

	// No snapshot but the first reaches these nodes.
	nodes := []*node{s.gateway("node-a", "--poll_interval", "10m"), s.gateway("node-b", "--poll_interval", "10m")}
	for _, n := range nodes {
		testkit.Eventually(t, 5*time.Second, n.name+" has the snapshot", func() error {
			if age := n.metric("turnout_gateway_snapshot_age_seconds"); age < 0 {
				return fmt.Errorf("snapshot age %v", age)
			}
			return nil
		})
	}
	const warm = 3 * time.Second
	var mu sync.Mutex
	var runs sync.WaitGroup
	failures := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, n := range nodes {
		runs.Go(func() {
			o := load.Options{URL: n.url, Key: token, Models: []string{sim.Small}, Rate: nodeRate, StreamShare: 0.5, Seed: uint64(i), MaxTokens: 8, Duration: warm + late + watched}
			sum, err := load.Run(ctx, o, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for code, n := range sum.Errors {
				failures[code] += n
			}
		})
	}
	time.Sleep(warm) // of traffic, which is what the test is about
	s.set(victim, `{"error_rate":0.8,"error_kinds":["server_error"]}`)
	failing := time.Now()
	runs.Wait()
	s.tell("failing provider", s.balance(20*time.Second))

	for _, n := range nodes {
		tries := s.triesOf(n.name)
		if share, total := shareOf(victim, tries, failing.Add(-warm), failing); share < 0.8 {
			t.Errorf("%s: the first choice had only %.0f %% of %d requests while it was well", n.name, 100*share, total)
		}
		calls, noticed := 0, time.Time{}
		for _, c := range tries {
			if c.provider == victim && c.at.After(failing) {
				if calls++; calls == firstCalls {
					noticed = c.at
				}
			}
		}
		windows := map[string]time.Time{"from 5 s on": failing.Add(otherNodeAfter)}
		if !noticed.IsZero() && noticed.Sub(failing) < late {
			windows[fmt.Sprintf("after its first %d requests to it (%.1f s)", firstCalls, noticed.Sub(failing).Seconds())] = noticed
		}
		before, _ := shareOf(victim, tries, failing.Add(-warm), failing)
		first, _ := shareOf(victim, tries, failing, failing.Add(otherNodeAfter))
		for name, from := range windows {
			share, total := shareOf(victim, tries, from, from.Add(watched))
			t.Logf("%s: %s: %.1f %% of %d requests in %s went to the failing provider first (%.0f %% before, %.1f %% in the first 5 s; %d calls in all)",
				n.name, name, 100*share, total, watched, 100*before, 100*first, calls)
			if total < int(watched.Seconds()*nodeRate*9/10) {
				t.Errorf("%s: only %d requests in %s: this shows little", n.name, total, watched)
			}
			if share > maxShare {
				t.Errorf("%s: %s the failing provider still had %.1f %%", n.name, name, 100*share)
			}
		}
	}
	if len(failures) > 0 {
		t.Errorf("clients were told %s", counts(failures))
	}
}

type try struct {
	at       time.Time
	provider string
	number   int
}

// triesOf lists what a node called, in order.
func (s *system) triesOf(node string) []try {
	s.t.Helper()
	found, err := s.db.Query(s.t.Context(), "SELECT started_at, provider, attempt_no FROM attempts_unique WHERE node_id = ? ORDER BY started_at", node)
	if err != nil {
		s.t.Fatal(err)
	}
	defer found.Close()
	var out []try
	for found.Next() {
		var c try
		var number int32
		if err := found.Scan(&c.at, &c.provider, &number); err != nil {
			s.t.Fatal(err)
		}
		c.number = int(number)
		out = append(out, c)
	}
	if err := found.Err(); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// shareOf is the share of requests that went to a provider first.
func shareOf(provider string, tries []try, from, to time.Time) (share float64, requests int) {
	n := 0
	for _, c := range tries {
		if c.number != 1 || c.at.Before(from) || !c.at.Before(to) {
			continue
		}
		requests++
		if c.provider == provider {
			n++
		}
	}
	return float64(n) / float64(max(requests, 1)), requests
}

// replayHistory writes an hour's worth of healthy attempts into Kafka, most of them of one provider,
// and waits until a snapshot holds them all.
func (s *system) replayHistory(first string) {
	t := s.t
	t.Helper()
	client, err := kafkax.Open(s.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	providers := sim.Default()
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	records := make([]kafkax.Record, historyAttempts)
	for i := range records {
		provider := first
		if i%10 >= 6 {
			provider = providers[1+i%4].ID
		}
		span := make([]byte, 8)
		for j := range span {
			span[j] = byte(random.Uint32())
		}
		ttft := 20_000 + random.Int64N(5000)
		// Until now, and young enough that all still count when they are published.
		end := now.Add(-time.Duration(float64(58*time.Minute) * float64(i) / historyAttempts)).UTC()
		e := attempt.Event{
			SchemaVersion: attempt.SchemaVersion, EventID: uuid.Must(uuid.NewV7()).String(), RequestID: uuid.Must(uuid.NewV7()).String(),
			SpanID: hex.EncodeToString(span), AttemptNo: 1, NodeID: "history", OrganizationID: "local", ProjectID: projectID,
			RequestedModel: sim.Small, Endpoint: attempt.EndpointChat, Stream: i%2 == 0, Provider: provider, Model: sim.Small, CredentialSource: attempt.Platform,
			Reason: "weighted-score", StartedAt: end.Add(-40 * time.Millisecond), FinishedAt: end, DurationUS: 40_000, Outcome: attempt.Completed,
			ErrorType: "none", StatusCode: http.StatusOK, FinishReason: "length", InputTokens: 100, OutputTokens: 8, UsageSource: attempt.UsageReported,
		}
		if e.Stream {
			e.TTFTUS = &ttft
		}
		records[i] = kafkax.Record{Key: []byte(e.RequestID), Value: attempt.Append(nil, &e), Time: end}
	}
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 40*time.Second, "a snapshot holds the history", func() error {
		var held int64
		err := s.db.QueryRow(t.Context(), "SELECT sum(attempts) FROM snapshot_rows WHERE profile = ? AND snapshot_id = (SELECT snapshot_id FROM snapshot_heads ORDER BY generation DESC, watermark_sum DESC, as_of DESC LIMIT 1)",
			snapshot.DefaultProfile().ID).Scan(&held)
		if err == nil && held != historyAttempts {
			err = fmt.Errorf("it holds %d of %d attempts", held, historyAttempts)
		}
		return err
	})
}
