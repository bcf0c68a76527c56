package processor

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"turnout/internal/failpoint"
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
	if err := w.conn.Exec(t.Context(), "INSERT INTO folds SELECT * REPLACE (errors + 1 AS errors) FROM folds FINAL WHERE kind = 'slot' AND generation = 2 LIMIT 1"); err != nil {
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

// counted fails the test unless n events are rows, and usage holds each of them once.
func (w *world) counted(n int64) {
	w.t.Helper()
	if rows, usage := w.unique(), w.number("sum(attempts) FROM usage_hourly"); rows != n || usage != n {
		w.t.Errorf("%d rows, and %d in usage, for %d events", rows, usage, n)
	}
	w.verified()
}

// What no processor had read yet is not only counted: its rows are stored too, and what is poison is
// put aside.
func TestAReplayStoresWhatNobodyHadRead(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(43, 44))
	_, stop := w.run()
	w.writeEvents(rng, 200)
	w.caughtUp(20 * time.Second)
	stop()
	w.writeEvents(rng, 150)
	w.write(kafkax.Record{Key: []byte("k"), Value: []byte("not json")})
	if out, err := w.replay(); err != nil || !strings.Contains(out, "generation 2 is live") || !strings.Contains(out, "is published") {
		t.Fatalf("%v\n%s", err, out)
	}
	w.run() // goes on, and must not have to go back
	w.writeEvents(rng, 50)
	w.caughtUp(20 * time.Second)
	w.counted(400)
	if n := w.number("count() FROM dead_letters FINAL"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// All of the log has expired, and nothing of it was unread: everything comes from the raw rows.
func TestAReplayOfAnEmptyLogEnds(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(45, 46))
	_, stop := w.run()
	w.writeEvents(rng, 200)
	w.caughtUp(20 * time.Second)
	stop()
	for p := range 2 {
		_, end, err := w.client.Bounds(t.Context(), topic.Attempts, p)
		if err != nil {
			t.Fatal(err)
		}
		kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, p, end)
	}
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := w.differing(1, 2); n != 0 {
		t.Errorf("%d buckets differ", n)
	}
	set, err := w.readSnapshot(t.Context())
	if err != nil || len(set.Head.Watermarks) != 2 || set.Head.Generation != 2 {
		t.Errorf("%v, head %+v", err, set.Head)
	}
	w.run()
	w.writeEvents(rng, 50)
	w.caughtUp(20 * time.Second)
	w.counted(250)
}

// The topic was deleted and made again: what was there stays, what is new is added, and the next
// replay knows both.
func TestAReplayOfATopicMadeAnewKeepsWhatWasThere(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(47, 48))
	_, stop := w.run()
	w.writeEvents(rng, 200)
	w.caughtUp(20 * time.Second)
	stop()
	if err := w.client.DeleteTopics(t.Context(), []string{topic.Attempts}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.EnsureTopics(t.Context(), topic.Specs(2)); err != nil {
		t.Fatal(err)
	}
	w.writeEvents(rng, 60)
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, stop = w.run()
	w.writeEvents(rng, 40)
	w.caughtUp(20 * time.Second)
	w.counted(300)
	stop()
	if out, err := w.replay("--from", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.counted(300)
	if n := w.differing(2, 3); n != 0 {
		t.Errorf("%d buckets differ", n)
	}
}

func TestAReplayMayBeginAnywhere(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(49, 50))
	_, stop := w.run()
	w.writeEvents(rng, 200)
	time.Sleep(1100 * time.Millisecond) // times are given by the second
	at := time.Now().UTC().Format(time.RFC3339)
	w.writeEvents(rng, 200)
	w.caughtUp(20 * time.Second)
	stop()
	for i, from := range []string{at, "0:50", "1:0,0:10", "2100-01-01T00:00:00Z"} {
		if out, err := w.replay("--from", from); err != nil {
			t.Fatalf("%s: %v\n%s", from, err, out)
		}
		if n := w.differing(1, uint32(i+2)); n != 0 {
			t.Errorf("from %s: %d buckets differ", from, n)
		}
	}
	w.counted(400)
}

// Days whose raw rows have expired are taken over from the live generation.
func TestAReplayCarriesClosedDaysOver(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(51, 52))
	_, stop := w.run()
	old := event(rng, time.Now().Add(-72*time.Hour))
	w.write(record(old, false))
	w.writeEvents(rng, 100)
	w.caughtUp(20 * time.Second)
	stop()
	if err := w.conn.Exec(t.Context(), "ALTER TABLE attempts DELETE WHERE event_id = ? SETTINGS mutations_sync = 1", old.EventID); err != nil {
		t.Fatal(err)
	}
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, 50)
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := w.differing(1, 2); n != 0 {
		t.Errorf("%d buckets differ", n)
	}
	if n := w.number("sum(attempts) FROM usage_hourly"); n != 101 {
		t.Errorf("usage holds %d attempts, want 101", n)
	}
}

// A batch whose rows are stored and whose buckets are not yet is no difference.
func TestVerifyingUnderLoadFindsNothing(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(53, 54))
	w.run()
	w.writeEvents(rng, 500)
	w.caughtUp(20 * time.Second)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 60 {
			w.writeEvents(rng, 20)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for {
		if out, err := w.replay("--verify"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

// Killed wherever it is, a replay leaves the live generation alone, and the next one begins a generation
// of its own: what it finds is what was there.
func TestAReplayThatWasKilledIsRunAgain(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(55, 56))
	w.run()
	written := int64(len(w.writeEvents(rng, 300)))
	w.caughtUp(20 * time.Second)
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, 40)
	live := func() uint32 { return uint32(w.number("max(generation) FROM fold_generations")) }
	for _, point := range []string{"replay seeded", "raw stored", "folds stored", "generation live"} {
		before := live()
		w.dies(order{Replay: true, Point: point}, func() { written += int64(len(w.writeEvents(rng, 5))) })
		if now := live(); now != before && point != "generation live" {
			t.Errorf("%s: generation %d is live, %d was", point, now, before)
		}
		w.caughtUp(20 * time.Second)
		w.counted(written)
		out, err := w.replay()
		if err != nil {
			t.Fatalf("%s: %v\n%s", point, err, out)
		}
		if next := live(); next < before+2 {
			t.Errorf("%s: the next replay filled generation %d again", point, next)
		}
		w.caughtUp(20 * time.Second)
		w.counted(written)
	}
}

// A replay that died right after it had noted what it would leave out wrote into the generation of the
// next one: that the topic was made anew, at a time at which nothing was made of it.
func TestAReplayNeverSharesItsNumber(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(57, 58))
	_, stop := w.run()
	w.writeEvents(rng, 50)
	w.caughtUp(20 * time.Second)
	stop()
	if err := w.client.DeleteTopics(t.Context(), []string{topic.Attempts}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.EnsureTopics(t.Context(), topic.Specs(1)); err != nil {
		t.Fatal(err)
	}
	w.writeEvents(rng, 20)
	w.dies(order{Replay: true, Point: "replay gap recorded"}, func() {})
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := w.number("max(generation) FROM fold_generations"); n != 3 {
		t.Errorf("generation %d is live: it holds the gap of the replay that died", n)
	}
	w.counted(70)
}

// Two replays at once: the second to end compared itself with a generation that was live no more, and
// set everybody back behind the first.
func TestAReplayThatWasOvertakenSaysSo(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(59, 60))
	_, stop := w.run()
	w.writeEvents(rng, 50)
	w.caughtUp(20 * time.Second)
	stop()
	kafkatest.DeleteRecords(t, w.kafka, topic.Attempts, 0, 10)
	first := true
	failpoint.Set(func(point string) {
		if point != "replay seeded" || !first {
			return
		}
		first = false
		if out, err := w.replay(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	defer failpoint.Set(func(string) {})
	if _, err := w.replay(); err == nil || !strings.Contains(err.Error(), "another replay has made generation 3 live") {
		t.Errorf("the one that was overtaken: %v", err)
	}
	if n := w.number("max(generation) FROM fold_generations"); n != 3 {
		t.Errorf("generation %d is live", n)
	}
	w.counted(50)
}
