//go:build measure

package e2e

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// How long an acknowledged event takes to become a row and to stand in its hour's sums, while a gateway
// carries 200 requests/s.
func TestMeasureFreshness(t *testing.T) {
	const (
		length = 60 * time.Second
		every  = 100 * time.Millisecond
		poll   = 10 * time.Millisecond
		probe  = "probe"
	)
	s := newSystem(t, parts{})
	s.processor("processor")
	g := s.gateway("node-a")
	client, err := kafkax.Open(s.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	loaded := make(chan load.Summary, 1)
	go func() {
		sum, err := load.Run(t.Context(), load.Options{URL: g.url, Key: token, Models: []string{sim.Small}, Rate: 200, StreamShare: 0.5, MaxTokens: 8, Duration: length + 5*time.Second}, nil)
		if err != nil {
			t.Error(err)
		}
		loaded <- sum
	}()
	time.Sleep(2 * time.Second)

	// All probes are of one partition, so that the nth to be acknowledged is the nth to be seen.
	acked := make(chan time.Time, length/every)
	go func() {
		defer close(acked)
		writer, request := client.NewWriter(topic.Attempts), uuid.Must(uuid.NewV7()).String()
		for range length / every {
			now := time.Now().UTC()
			e := &attempt.Event{
				SchemaVersion: attempt.SchemaVersion, EventID: uuid.Must(uuid.NewV7()).String(), RequestID: request, SpanID: fmt.Sprintf("%016x", rand.Uint64()),
				AttemptNo: 1, NodeID: "history", OrganizationID: "local", ProjectID: probe, RequestedModel: sim.Small, Endpoint: attempt.EndpointChat, Provider: probe, Model: sim.Small,
				CredentialSource: attempt.Platform, StartedAt: now, FinishedAt: now, Outcome: attempt.Completed, StatusCode: 200, UsageSource: attempt.UsageReported, OutputTokens: 1,
			}
			if _, err := writer.Write(t.Context(), []kafkax.Record{{Key: []byte(request), Value: attempt.Append(nil, e), Time: now}}); err != nil {
				t.Error(err)
				return
			}
			acked <- time.Now()
			time.Sleep(every - time.Since(now))
		}
	}()
	seen := func(query string) []time.Time {
		at := make([]time.Time, 0, length/every)
		for deadline := time.Now().Add(length + 10*time.Second); len(at) < cap(at) && time.Now().Before(deadline); time.Sleep(poll) {
			var n int64
			if err := s.db.QueryRow(t.Context(), query, probe).Scan(&n); err != nil {
				t.Error(err)
				return at
			}
			for now := time.Now(); int64(len(at)) < n; {
				at = append(at, now)
			}
		}
		return at
	}
	buckets := make(chan []time.Time, 1)
	go func() { buckets <- seen("SELECT toInt64(sum(attempts)) FROM usage_hourly WHERE project_id = ?") }()
	rows := seen("SELECT toInt64(count()) FROM attempts WHERE project_id = ?")
	sums := <-buckets
	var ack []time.Time
	for at := range acked {
		ack = append(ack, at)
	}
	sum := <-loaded
	if sum.OK != sum.Requests {
		t.Errorf("%d of %d requests were answered", sum.OK, sum.Requests)
	}
	for name, at := range map[string][]time.Time{"row": rows, "sums of its hour": sums} {
		if len(at) != len(ack) {
			t.Fatalf("%s: %d of %d probes were seen", name, len(at), len(ack))
		}
		took := make([]time.Duration, len(at))
		for i := range at {
			took[i] = at[i].Sub(ack[i])
		}
		slices.Sort(took)
		t.Logf("acknowledged by Kafka to %s: p50 %d ms, p99 %d ms, longest %d ms of %d probes under %.0f requests/s", name,
			took[len(took)/2].Milliseconds(), took[len(took)*99/100].Milliseconds(), took[len(took)-1].Milliseconds(), len(took), float64(sum.Requests)/length.Seconds())
	}
}

// How long until the other node leaves a provider that fails for a busy one: by the shared cooldown,
// with and without a snapshot in between, and, where too few calls fail for a cooldown, by what snapshots
// say of the busy node's attempts.
func TestMeasureOtherNodeLeavesAFailingProvider(t *testing.T) {
	for _, way := range []struct {
		name, poll, errors string
		watched            time.Duration
	}{
		{"80 % fail and no snapshot comes in between", "10m", "0.8", 20 * time.Second},
		{"80 % fail and snapshots are asked for each second", "1s", "0.8", 20 * time.Second},
		{"15 % fail and no snapshot comes in between", "10m", "0.15", 60 * time.Second},
		{"15 % fail and snapshots are asked for each second", "1s", "0.15", 60 * time.Second},
	} {
		t.Run(way.name, func(t *testing.T) {
			const busy, quiet = 40, 2
			s := newSystem(t, parts{providers: paced(sim.Fixed(20), sim.Fixed(400))})
			victim := sim.Default()[0].ID
			s.processor("processor")
			s.replayHistory(victim)
			nodes := map[*node]float64{s.gateway("node-a", "--poll_interval", way.poll): busy, s.gateway("node-b", "--poll_interval", way.poll): quiet}
			const warm = 3 * time.Second
			done := make(chan error)
			for n, rate := range nodes {
				testkit.Eventually(t, 15*time.Second, n.name+" has the snapshot", func() error { return n.snapshotYounger(time.Hour) })
				go func() {
					_, err := load.Run(t.Context(), load.Options{URL: n.url, Key: token, Models: []string{sim.Small}, Rate: rate, StreamShare: 0.5, MaxTokens: 8, Duration: warm + way.watched}, nil)
					done <- err
				}()
			}
			time.Sleep(warm)
			s.set(victim, `{"error_rate":`+way.errors+`,"error_kinds":["server_error"]}`)
			failing := time.Now()
			for range nodes {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			s.balance(20 * time.Second)
			for n, rate := range nodes {
				tries := s.triesOf(n.name)
				// The first second from which on no more than 5 % of the next ten went there first.
				left, asked := -time.Second, 0
				for after := time.Duration(0); after <= way.watched-10*time.Second; after += 250 * time.Millisecond {
					if share, n := shareOf(victim, tries, failing.Add(after), failing.Add(after+10*time.Second)); share <= 0.05 {
						left, asked = after, n
						break
					}
				}
				before, _ := shareOf(victim, tries, failing.Add(-warm), failing)
				t.Logf("%s (%.0f requests/s): %.0f %% first there before; at most 5 %% of 10 s (%d requests) from %.2f s after it began to fail on (-1: never)", n.name, rate, 100*before, asked, left.Seconds())
			}
		})
	}
}

// How long by snapshots alone: the other node is cut off from the first one's Kafka, so that no cooldown
// and no preference reaches it, and its own calls go to upstreams that are well. All it can learn of the
// failing provider stands in ClickHouse.
func TestMeasureLeavingBySnapshotsAlone(t *testing.T) {
	const (
		busy, quiet = 40, 4
		warm        = 3 * time.Second
		watched     = 100 * time.Second
	)
	for _, errors := range []string{"0.15", "0.5"} {
		t.Run(errors, func(t *testing.T) {
			s := newSystem(t, parts{providers: paced(sim.Fixed(20), sim.Fixed(400))})
			apart := newSystem(t, parts{providers: paced(sim.Fixed(20), sim.Fixed(400)), kafka: kafkatest.Start(t, 3)})
			victim := sim.Default()[0].ID
			s.processor("processor")
			s.replayHistory(victim)
			a := s.gateway("node-a")
			b := apart.gateway("node-b", "--clickhouse.addr", s.clickhouse.Addr[0], "--clickhouse.database", s.clickhouse.Database,
				"--clickhouse.username", s.clickhouse.Username, "--clickhouse.password", s.clickhouse.Password.Reveal())
			done := make(chan error)
			for n, rate := range map[*node]float64{a: busy, b: quiet} {
				testkit.Eventually(t, 15*time.Second, n.name+" has the snapshot", func() error { return n.snapshotYounger(time.Hour) })
				go func() {
					_, err := load.Run(t.Context(), load.Options{URL: n.url, Key: token, Models: []string{sim.Small}, Rate: rate, StreamShare: 0.5, MaxTokens: 8, Duration: warm + watched}, nil)
					done <- err
				}()
			}
			time.Sleep(warm)
			s.set(victim, `{"error_rate":`+errors+`,"error_kinds":["server_error"]}`)
			failing := time.Now()
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			s.balance(20 * time.Second)
			var tries []try
			for _, e := range apart.sim.Ledger(0) {
				tries = append(tries, try{at: e.ReceivedAt, provider: e.Provider, number: 1})
			}
			for name, tries := range map[string][]try{"node-a": s.triesOf(a.name), "node-b, by snapshots alone": tries} {
				left, asked := -time.Second, 0
				for after := time.Duration(0); after <= watched-10*time.Second; after += 250 * time.Millisecond {
					if share, n := shareOf(victim, tries, failing.Add(after), failing.Add(after+10*time.Second)); share <= 0.05 {
						left, asked = after, n
						break
					}
				}
				before, _ := shareOf(victim, tries, failing.Add(-warm), failing)
				t.Logf("%s: %.0f %% first there before; at most 5 %% of 10 s (%d requests) from %.2f s after it began to fail on (-1: never)", name, 100*before, asked, left.Seconds())
			}
		})
	}
}

// Kafka is away for long while a gateway carries 500 requests/s: TURNOUT_MEASURE_AWAY, ten minutes if
// not set.
func TestMeasureKafkaAway(t *testing.T) {
	const rate = 500
	away := 10 * time.Minute
	if text := os.Getenv("TURNOUT_MEASURE_AWAY"); text != "" {
		var err error
		if away, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	ch, kafka := chtest.Start(t), kafkatest.Start(t, 12)
	s := newSystem(t, parts{clickhouse: ch, kafka: kafka})
	s.processor("processor")
	g := s.gateway("node-a")
	run := func(d time.Duration) load.Summary {
		sum, err := load.Run(t.Context(), load.Options{URL: g.url, Key: token, Models: []string{sim.Small}, Rate: rate, StreamShare: 0.2, MaxTokens: 8, Duration: d}, nil)
		if err != nil {
			t.Error(err)
		}
		return sum
	}
	show := func(when string) {
		t.Logf("%s: RSS %.0f MiB, %.0f events in the spool, %.0f MiB of it", when, g.rss(), g.metric("turnout_gateway_spool_depth"), g.metric("turnout_gateway_spool_bytes")/(1<<20))
	}
	run(20 * time.Second) // so that what a busy gateway holds is there
	show("Kafka there, warm")
	kafka.Stop()
	loaded := make(chan load.Summary, 1)
	began := time.Now()
	go func() { loaded <- run(away) }()
	for tick := range 10 {
		time.Sleep(time.Until(began.Add(away * time.Duration(tick+1) / 10)))
		show(fmt.Sprintf("Kafka away for %s", time.Since(began).Round(time.Second)))
	}
	sum := <-loaded
	if sum.OK != sum.Requests || sum.Requests < int(away.Seconds()*rate*0.99) {
		t.Errorf("%d of %d requests were answered, %.0f wanted; told %s", sum.OK, sum.Requests, away.Seconds()*rate, counts(sum.Errors))
	}
	waiting := g.metric("turnout_gateway_spool_depth")
	kafka.Start()
	back := time.Now()
	testkit.Eventually(t, 5*time.Minute, "the spool is empty", func() error {
		if depth := g.metric("turnout_gateway_spool_depth"); depth > 0 {
			return fmt.Errorf("%.0f events wait", depth)
		}
		return nil
	})
	drained := time.Since(back)
	var rows int64
	want := int64(len(s.sim.Ledger(0)))
	testkit.Eventually(t, 5*time.Minute, "all rows", func() error {
		time.Sleep(time.Second)
		if err := s.db.QueryRow(t.Context(), "SELECT toInt64(count()) FROM attempts").Scan(&rows); err != nil {
			return err
		}
		if rows < want {
			return fmt.Errorf("%d of %d", rows, want)
		}
		return nil
	})
	t.Logf("%d requests, %d answered; %.0f events drained in %.1f s (%.0f/s, Kafka's start included), all rows after %.1f s", sum.Requests, sum.OK, waiting, drained.Seconds(), waiting/drained.Seconds(), time.Since(back).Seconds())
	s.tell("after the outage", s.balance(time.Minute))
	show("drained")
}

// rss is the resident memory of a node in MiB.
func (n *node) rss() float64 {
	n.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.proc.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return kib / 1024
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}
