package processor

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

func (w *world) replay(args ...string) (string, error) {
	var out bytes.Buffer
	args = append(args, "--kafka.brokers", strings.Join(w.kafka.Brokers, ","), "--clickhouse.addr", w.ch.Addr[0], "--clickhouse.database", w.ch.Database,
		"--clickhouse.username", w.ch.Username, "--clickhouse.password", w.ch.Password.Reveal())
	err := ReplayMain(w.t.Context(), lifecycle.Env{Stdout: &out, Stderr: &out, Args: args}, nil)
	return out.String(), err
}

// differing counts the buckets that two generations do not share.
func (w *world) differing(a, b uint32) int64 {
	w.t.Helper()
	const columns = "kind, at, kafka_partition, provider, model, region, class, organization_id, project_id, if(kind = 'progress', 0, kafka_offset), value_hash, attempts, requests, successes, client_errors, errors, rate_limited, geo_blocked, timeouts, canceled, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, throughput_tokens, throughput_us, ttft_count, ttft_us, ttft_histogram, cost_nano_usd"
	return w.number("count() FROM (SELECT "+columns+", count() AS n FROM folds FINAL WHERE generation IN (?, ?) AND kind != 'progress' GROUP BY ALL HAVING n != 2)", a, b)
}

func TestAReplayIsWhatWasThere(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(41, 42))
	if err := w.conn.Exec(t.Context(), "ALTER TABLE attempts ADD CONSTRAINT poison CHECK provider != 'poison'"); err != nil {
		t.Fatal(err)
	}
	p, _ := w.run()
	events := w.writeEvents(rng, 600)
	var again []kafkax.Record
	for _, e := range events[:100] {
		again = append(again, record(e, true))
	}
	poison := event(rng, time.Now())
	poison.Provider = "poison"
	w.write(append(again, record(poison, false))...)
	w.caughtUp(20 * time.Second)

	// Part of the log has expired: that part comes from the raw rows.
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, 90)
	out, err := w.replay()
	if err != nil || !strings.Contains(out, "generation 2 is live") {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := w.number("count() FROM folds FINAL WHERE generation = 2 AND kind = 'slot'"); n == 0 {
		t.Error("the new generation has no slots")
	}
	if n := w.differing(1, 2); n != 0 {
		t.Errorf("%d buckets differ", n)
	}

	// The running processor follows, and goes on in the new generation.
	w.writeEvents(rng, 200)
	w.caughtUp(30 * time.Second)
	if len(p.status.Stopped()) != 0 {
		t.Errorf("stopped: %v", p.status.Stopped())
	}
	w.verified()
	eventually(t, 10*time.Second, "snapshots are of the new generation", func() bool {
		set, err := w.readSnapshot(t.Context())
		return err == nil && set.Head.Generation == 2
	})
	if out, err := w.replay("--verify"); err != nil || !strings.Contains(out, " 0 differences") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if err := w.conn.Exec(t.Context(), "INSERT INTO folds SELECT * REPLACE (errors + 1 AS errors, kafka_offset + 1 AS kafka_offset) FROM folds FINAL WHERE kind = 'slot' AND generation = 2 LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	if out, err := w.replay("--verify"); lifecycle.Code(err) != 1 || !strings.Contains(out, "errors is ") || !strings.Contains(out, " 1 differences") {
		t.Errorf("verify of a wrong slot: %v\n%s", err, out)
	}
}

func TestReplayRefusesNonsense(t *testing.T) {
	w := newWorld(t, 1)
	if _, err := w.replay("--from=yesterday"); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), "from: ") {
		t.Errorf("%v", err)
	}
	if _, err := w.replay("--from=0:7"); err == nil || !strings.Contains(err.Error(), "partition 0") {
		t.Errorf("%v", err)
	}
}
