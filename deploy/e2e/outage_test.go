package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
)

const sampleEvery = 250 * time.Millisecond

// An engine goes away while traffic runs: no request fails, what the node routes by ages visibly, and
// every call is a row afterwards.
func TestOutages(t *testing.T) {
	t.Parallel()
	away := 8 * time.Second
	if full {
		away = time.Minute
	}
	ch, kafka := chtest.Start(t), kafkatest.Start(t, 3)
	s := newSystem(t, parts{clickhouse: ch, kafka: kafka, providers: paced(sim.Fixed(20), sim.Fixed(400))})
	g := s.gateway("node-a")
	s.processor("processor")
	testkit.Eventually(t, 30*time.Second, "a first snapshot", func() error { return g.snapshotYounger(time.Minute) })

	for _, outage := range []struct {
		name      string
		end, heal func()
		slack     time.Duration // how long a new snapshot may still come
	}{
		{"ClickHouse killed", ch.Kill, ch.Start, time.Second},
		{"ClickHouse silent", ch.Pause, ch.Resume, time.Second},
		{"Kafka stopped", kafka.Stop, kafka.Start, 5 * time.Second},
	} {
		// Not subtests: the next outage meets a system that has had one.
		before, requests := len(s.sim.Ledger(0)), make(chan load.Summary, 1)
		go func() {
			sum, err := load.Run(t.Context(), load.Options{URL: g.url, Key: token, Models: []string{sim.Small}, Rate: nodeRate, StreamShare: 0.5, MaxTokens: 8, Duration: away + 2*time.Second}, nil)
			if err != nil {
				t.Error(err)
			}
			requests <- sum
		}()
		outage.end()
		began := time.Now()
		var ages, settled, backlog []float64
		for time.Since(began) < away {
			age := g.metric("turnout_gateway_snapshot_age_seconds")
			if ages = append(ages, age); time.Since(began) > outage.slack {
				settled = append(settled, age)
			}
			backlog = append(backlog, g.metric("turnout_gateway_own_attempts"))
			if status, body := g.readiness(); status != http.StatusOK {
				t.Errorf("%s: the node is not ready: %d %s", outage.name, status, body)
			}
			time.Sleep(sampleEvery)
		}
		outage.heal()
		sum := <-requests
		healed := time.Now()
		rows := s.balance(time.Minute)
		s.tell(fmt.Sprintf("%s for %s", outage.name, away), rows)
		testkit.Eventually(t, 30*time.Second, "a fresh snapshot", func() error { return g.snapshotYounger(away/2 + 3*time.Second) })
		first, last := ages[0], ages[len(ages)-1]
		t.Logf("%s: %d requests, %d answered, %d calls; snapshot age %.1f s at the start, %.1f s at the end; own attempts at most %.0f; rows and a fresh snapshot %.1f s after",
			outage.name, sum.Requests, sum.OK, len(s.sim.Ledger(0))-before, first, last, slices.Max(backlog), time.Since(healed).Seconds())
		if sum.OK != sum.Requests || sum.Requests < int(away.Seconds()*nodeRate) {
			t.Errorf("%s: %d of %d requests were answered; told %s", outage.name, sum.OK, sum.Requests, counts(sum.Errors))
		}
		if last < (away-outage.slack).Seconds() || len(settled) < 2 || !slices.IsSorted(settled) {
			t.Errorf("%s: the snapshot's age does not show the outage: %.1f", outage.name, ages)
		}
	}
	s.judgeFolds(len(s.balance(time.Minute)))
}

func (n *node) snapshotYounger(bound time.Duration) error {
	if age := n.metric("turnout_gateway_snapshot_age_seconds"); age < 0 || age > bound.Seconds() {
		return fmt.Errorf("its age is %.1f s", age)
	}
	return nil
}

// A gateway that starts without Kafka says so, keeps trying and is not ready before it has read state
// and configuration. Without ClickHouse it is ready and says so.
func TestStartWithoutEngines(t *testing.T) {
	t.Parallel()
	ch, kafka := chtest.Start(t), kafkatest.Start(t, 3)
	s := newSystem(t, parts{clickhouse: ch, kafka: kafka})

	kafka.Stop()
	g := s.newGateway("node-a")
	g.start()
	g.logs(20*time.Second, "Kafka cannot be reached", s.kafka.Brokers[0])
	testkit.Eventually(t, 5*time.Second, "the reason", func() error {
		status, body := g.readiness()
		if status != http.StatusServiceUnavailable || !containsAll(body, []string{"topic", s.kafka.Brokers[0]}) {
			return fmt.Errorf("readyz: %d %s; want 503 naming what was not read and %s", status, body, s.kafka.Brokers[0])
		}
		return nil
	})
	kafka.Start()
	g.await()
	if _, err := plain(t.Context(), newSDK(g.url), question(sim.Small, 0)); err != nil {
		t.Error(err)
	}
	g.stop(10 * time.Second)

	ch.Kill()
	g = s.newGateway("node-b")
	g.start()
	g.await()
	g.logs(20*time.Second, "ClickHouse cannot be reached", s.clickhouse.Addr[0])
	testkit.Eventually(t, 15*time.Second, "readiness says that ClickHouse is away", func() error {
		status, body := g.readiness()
		if status != http.StatusOK || !containsAll(body, []string{`"clickhouse"`}) {
			return fmt.Errorf("readyz: %d %s", status, body)
		}
		return nil
	})
	if _, err := streamed(t.Context(), newSDK(g.url), question(sim.Small, 1)); err != nil {
		t.Error(err)
	}
	ch.Start()
	s.processor("processor")
	s.tell("started without engines", s.balance(30*time.Second))
	testkit.Eventually(t, 30*time.Second, "a snapshot", func() error { return g.snapshotYounger(time.Minute) })
}
