package processor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func TestDuplicatesCountOnce(t *testing.T) {
	w := newWorld(t, 3)
	rng := rand.New(rand.NewPCG(7, 8))
	_, stop := w.run()
	events := w.writeEvents(rng, 500)
	for _, e := range events[:50] { // close by and unmarked
		w.write(record(e, false))
	}
	w.caughtUp(20 * time.Second)
	stop()

	// After a restart nothing is remembered; what was sent again is marked.
	_, stop = w.run()
	var again []kafkax.Record
	for _, e := range events {
		again = append(again, record(e, true))
	}
	fresh := event(rng, time.Now()) // marked, although it never arrived
	again = append(again, record(fresh, true), record(fresh, true))
	w.write(again...)
	w.caughtUp(20 * time.Second)
	stop()
	if n := w.unique(); n != 501 {
		t.Errorf("%d rows for 501 events", n)
	}
	if n := w.number("max(kafka_offset) FROM attempts FINAL WHERE event_id = ?", events[0].EventID); n > 499 {
		t.Errorf("the row of a first record was replaced by one of offset %d", n)
	}
	w.verified()
}

func TestPartitionsMoveUnderLoad(t *testing.T) {
	w := newWorld(t, 4)
	rng := rand.New(rand.NewPCG(9, 10))
	total := int64(0)
	write := func(rounds int) {
		for range rounds {
			total += int64(len(w.writeEvents(rng, 100)))
			time.Sleep(20 * time.Millisecond)
		}
	}
	first, stopFirst := w.run()
	write(10)
	second, _ := w.run()
	eventually(t, 15*time.Second, "both have partitions", func() bool {
		write(1)
		return len(first.status.Partitions()) == 2 && len(second.status.Partitions()) == 2
	})
	if first.leads() == second.leads() {
		t.Errorf("leaders: %v and %v", first.leads(), second.leads())
	}
	write(10)
	stopFirst()
	write(10)
	eventually(t, 15*time.Second, "the second has all", func() bool { return len(second.status.Partitions()) == 4 && second.leads() })
	w.caughtUp(20 * time.Second)
	if n := w.unique(); n != total {
		t.Errorf("%d rows for %d events", n, total)
	}
	w.verified()
}

func TestPoisonIsPutAside(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(11, 12))
	// The server refuses these: a row that no code of ours can foresee.
	if err := w.conn.Exec(t.Context(), "ALTER TABLE attempts ADD CONSTRAINT poison CHECK provider != 'poison'"); err != nil {
		t.Fatal(err)
	}
	start := event(rng, time.Now())
	start.Outcome = ""
	ancient := event(rng, time.Now())
	ancient.StartedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	refused := event(rng, time.Now())
	refused.Provider = "poison"
	records := []kafkax.Record{
		{Key: []byte("k"), Value: []byte("not json at all")}, {Key: []byte("k"), Value: nil}, {Key: []byte("k"), Value: []byte(`{"schema_version":"one"}`)},
		{Key: []byte("k"), Value: []byte(`{"schema_version":0,"event_id":"x"}`)}, {Key: []byte("k"), Value: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)},
		record(start, false), record(ancient, false), record(refused, false),
	}
	total := 0
	for _, poison := range records {
		total += len(w.writeEvents(rng, 40))
		w.write(poison)
	}
	_, stop := w.run()
	w.caughtUp(20 * time.Second)
	stop()
	if n := w.unique(); n != int64(total) {
		t.Errorf("%d rows for %d good events", n, total)
	}
	w.verified()

	_, end, err := w.client.Bounds(t.Context(), topic.DeadLetter, 0)
	if err != nil || end != int64(len(records)) {
		t.Fatalf("%d dead letters for %d records, %v", end, len(records), err)
	}
	fetcher := w.client.NewFetcher(topic.DeadLetter, 0, 0)
	seen := 0
	for seen < len(records) {
		got, err := fetcher.Fetch(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			seen++
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			if headers[topic.HeaderDeadTopic] != topic.Attempts || headers[topic.HeaderDeadCause] == "" || headers[topic.HeaderDeadPartition] != "0" || headers[topic.HeaderDeadOffset] == "" {
				t.Errorf("headers: %v", headers)
			}
		}
	}
	if n := w.number("count() FROM dead_letters FINAL WHERE topic = ?", topic.Attempts); n != int64(len(records)) {
		t.Errorf("%d rows in dead_letters", n)
	}
	if n := w.number("count() FROM dead_letters FINAL WHERE value_bytes > 1000000 AND length(value) < value_bytes"); n != 1 {
		t.Errorf("%d cut values", n)
	}
	var cause string
	if err := w.conn.QueryRow(t.Context(), "SELECT cause FROM dead_letters WHERE position(value, 'poison') > 0").Scan(&cause); err != nil || !strings.Contains(cause, "poison") {
		t.Errorf("cause of the refused row: %q, %v", cause, err)
	}
}

func TestClickHouseGoesAway(t *testing.T) {
	server := chtest.Start(t)
	w := worldOn(t, kafkatest.New(t, 2), server.Config())
	rng := rand.New(rand.NewPCG(13, 14))
	p, _ := w.run()
	total := len(w.writeEvents(rng, 300))
	w.caughtUp(20 * time.Second)
	for _, away := range []struct{ leave, back func() }{{server.Stop, server.Start}, {server.Kill, server.Start}, {server.Pause, server.Resume}} {
		away.leave()
		total += len(w.writeEvents(rng, 300))
		time.Sleep(700 * time.Millisecond)
		if len(p.status.Partitions()) != 2 {
			t.Errorf("the processor gave up its partitions: %v", p.status.Partitions())
		}
		away.back()
		w.caughtUp(30 * time.Second)
	}
	if n := w.unique(); n != int64(total) {
		t.Errorf("%d rows for %d events", n, total)
	}
	w.verified()
}

func TestKafkaGoesAway(t *testing.T) {
	broker := kafkatest.Start(t, 2)
	w := worldOn(t, broker.Config(), chtest.New(t))
	rng := rand.New(rand.NewPCG(15, 16))
	w.run()
	total := len(w.writeEvents(rng, 300))
	w.caughtUp(20 * time.Second)
	broker.Stop()
	var records []kafkax.Record
	for range 300 {
		records = append(records, record(event(rng, time.Now()), false))
	}
	time.AfterFunc(500*time.Millisecond, broker.Start)
	// As a gateway does: send again, marked, until it is acknowledged.
	eventually(t, 20*time.Second, "the broker takes records", func() bool {
		_, err := w.client.NewWriter(topic.Attempts).Write(t.Context(), records)
		for i := range records {
			records[i].Headers = []kafkax.Header{{Key: topic.HeaderReplayed, Value: []byte("1")}}
		}
		return err == nil
	})
	total += len(records)
	w.caughtUp(30 * time.Second)
	if n := w.unique(); n != int64(total) {
		t.Errorf("%d rows for %d events", n, total)
	}
	w.verified()
}

func (w *world) readyz(p *Processor) (status int, reasons []string) {
	w.t.Helper()
	answer, err := http.Get("http://" + p.Addr() + "/readyz")
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	var body struct{ Reasons []string }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, body.Reasons
}

func TestALostRangeStopsItsPartitionAlone(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(17, 18))
	_, stop := w.run()
	w.writeEvents(rng, 200)
	w.caughtUp(20 * time.Second)
	stop()
	before := w.unique()

	w.writeEvents(rng, 400)
	_, end, err := w.client.Bounds(t.Context(), topic.Attempts, 0)
	if err != nil {
		t.Fatal(err)
	}
	stored := w.number("max(kafka_offset) FROM folds WHERE kind = 'progress' AND kafka_partition = 0")
	lost := stored + 51 // the first that is left
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, lost)

	p, stop := w.run()
	eventually(t, 20*time.Second, "partition 0 stops", func() bool { return len(p.status.Stopped()) == 1 })
	status, reasons := w.readyz(p)
	accept := fmt.Sprintf("0:%d", lost)
	if status != http.StatusServiceUnavailable || len(reasons) != 1 || !strings.Contains(reasons[0], "--accept-gap "+accept) || !strings.Contains(reasons[0], fmt.Sprintf("50 records (%d to %d)", stored+1, lost-1)) {
		t.Errorf("readyz: %d %q", status, reasons)
	}
	if next, ok := p.status.Progress()[0]; !ok || next != stored+1 {
		t.Errorf("the lag of a stopped partition is counted from %d (%v), want %d", next, ok, stored+1)
	}
	_, other, err := w.client.Bounds(t.Context(), topic.Attempts, 1)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "partition 1 goes on", func() bool {
		return w.number("max(kafka_offset) + 1 FROM folds WHERE kind = 'progress' AND kafka_partition = 1") == other
	})
	if n := w.number("max(kafka_offset) FROM folds WHERE kind = 'progress' AND kafka_partition = 0"); n != stored {
		t.Errorf("partition 0 moved from %d to %d", stored, n)
	}
	stop()

	w.run(func(p *Processor) { p.acceptGap = map[int]int64{0: lost} })
	eventually(t, 20*time.Second, "partition 0 goes on", func() bool {
		return w.number("max(kafka_offset) + 1 FROM folds WHERE kind = 'progress' AND kafka_partition = 0") == end
	})
	if n := w.unique(); n != before+400-50 {
		t.Errorf("%d rows, want %d", n, before+350)
	}
	if n := w.number("count() FROM sink_gaps WHERE kafka_partition = 0 AND first_offset = ? AND last_offset = ?", stored+1, lost-1); n != 1 {
		t.Errorf("%d rows in sink_gaps", n)
	}
	w.verified()
}

// A log that begins right behind the progress has lost nothing.
func TestAnExpiredLogWithNothingUnreadGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(19, 20))
	_, stop := w.run()
	w.writeEvents(rng, 100)
	w.caughtUp(20 * time.Second)
	stop()
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, 100)
	w.writeEvents(rng, 50)
	w.run()
	w.caughtUp(20 * time.Second)
	if n := w.unique(); n != 150 {
		t.Errorf("%d rows for 150 events", n)
	}
	w.verified()
}

func TestAnotherLogIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		says    string
	}{{"shorter", 10, "ends before"}, {"longer", 200, "another record"}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			rng := rand.New(rand.NewPCG(21, 22))
			_, stop := w.run()
			w.writeEvents(rng, 100)
			w.caughtUp(20 * time.Second)
			stop()
			if err := w.client.DeleteTopics(t.Context(), []string{topic.Attempts}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.client.EnsureTopics(t.Context(), topic.Specs(1)); err != nil {
				t.Fatal(err)
			}
			w.writeEvents(rng, c.records)
			p, _ := w.run()
			eventually(t, 20*time.Second, "the partition stops", func() bool { return len(p.status.Stopped()) == 1 })
			if _, reasons := w.readyz(p); !strings.Contains(reasons[0], c.says) || !strings.Contains(reasons[0], "turnout replay") {
				t.Errorf("reasons: %q", reasons)
			}
			if n := w.unique(); n != 100 {
				t.Errorf("%d rows: records of the other log were stored", n)
			}
		})
	}
}

func TestRefusalsAndConfigurationAreCopied(t *testing.T) {
	w := newWorld(t, 1)
	refusal, err := attempt.AppendRefused(nil, &attempt.Refused{SchemaVersion: 1, EventID: "e-1", RequestID: "r-1", NodeID: "n", ProjectID: "p", Endpoint: "chat", At: time.Now(), StatusCode: 400, ErrorCode: "no_provider_available",
		Considered: []attempt.Considered{{Provider: "a", ExcludedCode: "vision"}}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, records ...kafkax.Record) {
		t.Helper()
		if _, err := w.client.NewWriter(name).Write(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	put(topic.Requests, kafkax.Record{Key: []byte("r-1"), Value: refusal}, kafkax.Record{Key: []byte("x"), Value: []byte("{")})
	put(topic.Config, kafkax.Record{Key: []byte("project/acme"), Value: []byte(`{"schema_version":1,"kind":"project","id":"acme"}`)},
		kafkax.Record{Key: []byte("routing_config/abc"), Value: []byte(`{"schema_version":1,"kind":"routing_config","id":"abc","body":{"weights":{"price":1}}}`)},
		kafkax.Record{Key: []byte("project/acme")})
	for range 2 { // copying again changes nothing
		_, stop := w.run()
		eventually(t, 20*time.Second, "all is copied", func() bool {
			return w.number("count() FROM refusals FINAL WHERE event_id = 'e-1' AND error_code = 'no_provider_available'") == 1 &&
				w.number("count() FROM config_audit FINAL") == 3 && w.number("count() FROM dead_letters FINAL") == 1
		})
		stop()
	}
	var body string
	if err := w.conn.QueryRow(t.Context(), "SELECT body FROM routing_configs FINAL WHERE version = 'abc'").Scan(&body); err != nil || body != `{"weights":{"price":1}}` {
		t.Errorf("body: %q, %v", body, err)
	}
	if n := w.number("count() FROM config_audit FINAL WHERE kind = 'project' AND id = 'acme' AND deleted"); n != 1 {
		t.Errorf("%d deletions", n)
	}
}

// A spool that drains after an outage marks everything it sends.
func TestADrainedSpoolIsLookedUpInBulk(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(25, 26))
	var records []kafkax.Record
	for range 12_000 {
		records = append(records, record(event(rng, time.Now().Add(-time.Duration(rng.IntN(600))*time.Second)), true))
	}
	w.write(records...)
	w.write(records[:8000]...)
	w.run()
	w.caughtUp(30 * time.Second)
	if n := w.unique(); n != 12_000 {
		t.Errorf("%d rows for 12000 events", n)
	}
	w.verified()
}

func TestNothingIsLeftRunning(t *testing.T) {
	w := newWorld(t, 2)
	w.writeEvents(rand.New(rand.NewPCG(27, 28)), 50)
	w.unique() // opens the test's own connections
	before := goleak.IgnoreCurrent()
	_, stop := w.run()
	w.caughtUp(20 * time.Second)
	stop()
	goleak.VerifyNone(t, before)
}
