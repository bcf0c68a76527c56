package processor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit/chtest"
	"turnout/schemas/topic"
)

// Without --from only the last day's sums are recounted. With it, everything that is kept, and every
// record of the topic is looked up.
func TestVerifyComparesWhatFromNames(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(71, 72))
	_, stop := w.run()
	events := w.writeEvents(rng, 150)
	var again []kafkax.Record
	for _, e := range events[:40] {
		again = append(again, record(e, true))
	}
	yesterday := event(rng, time.Now().Add(-30*time.Hour))
	yesterday.CredentialSource, yesterday.Outcome = "platform", "completed"
	acks := w.write(append(again, record(yesterday, false), kafkax.Record{Key: []byte("k"), Value: []byte("not json")})...)
	w.caughtUp(20 * time.Second)
	stop()
	old := acks[40]

	verify := func(wantCode int, says []string, args ...string) {
		t.Helper()
		out, err := w.replay(append([]string{"--verify"}, args...)...)
		if lifecycle.Code(err) != wantCode {
			t.Errorf("%v: exit code %d, want %d; %v\n%s", args, lifecycle.Code(err), wantCode, err, out)
		}
		for _, text := range says {
			if !strings.Contains(out, text) {
				t.Errorf("%v: %q is not said\n%s", args, text, out)
			}
		}
	}
	verify(0, []string{" 0 differences"})
	verify(0, []string{"topic: 192 records looked up, 0 wrong", " 0 differences"}, "--from=earliest")
	verify(0, []string{"topic: 0 records looked up, 0 wrong"}, "--from=2100-01-01T00:00:00Z")
	verify(0, []string{fmt.Sprintf("topic: %d records looked up", 192-old.Offset)}, "--from", fmt.Sprintf("%d:%d", old.Partition, old.Offset))
	if n := w.number("max(generation) FROM folds"); n != 1 {
		t.Errorf("verifying wrote generation %d", n)
	}

	// A sum of 30 hours ago is wrong: only who asks for it hears of it.
	if err := w.conn.Exec(t.Context(), "INSERT INTO folds SELECT * REPLACE (attempts + 1 AS attempts) FROM folds FINAL WHERE kind = 'slot' AND at < now() - INTERVAL 25 HOUR"); err != nil {
		t.Fatal(err)
	}
	verify(0, []string{" 0 differences"})
	verify(0, []string{" 0 differences"}, "--from", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	verify(1, []string{"attempts is 2, its raw rows make 1", " 1 differences"}, "--from=earliest")

	// A sum that is ahead of the progress stored with it is none that moves.
	if err := w.conn.Exec(t.Context(), "INSERT INTO folds SELECT * REPLACE (1000 AS kafka_offset) FROM folds FINAL WHERE kind = 'usage' AND at < now() - INTERVAL 25 HOUR"); err != nil {
		t.Fatal(err)
	}
	verify(1, []string{"holds the event at offset 1000, progress says ", " 2 differences"}, "--from=earliest")

	// Its row and its sums are gone altogether: rows and sums agree, and only the topic knows better.
	for _, statement := range []string{
		fmt.Sprintf("ALTER TABLE attempts DELETE WHERE event_id = '%s' SETTINGS mutations_sync = 1", yesterday.EventID),
		"ALTER TABLE folds DELETE WHERE kind != 'progress' AND at < now() - INTERVAL 25 HOUR SETTINGS mutations_sync = 1",
	} {
		if err := w.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	verify(1, []string{fmt.Sprintf("record %d of partition %d (event %s) is neither a row nor a dead letter", old.Offset, old.Partition, yesterday.EventID),
		"topic: 192 records looked up, 1 wrong", " 0 differences"}, "--from=earliest")
	verify(0, []string{" 0 wrong", " 0 differences"}, "--from", fmt.Sprintf("%d:%d,%d:%d", old.Partition, old.Offset+1, 1-old.Partition, 0))
}

func TestVerifyNamesATopicMadeAnew(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(73, 74))
	_, stop := w.run()
	w.writeEvents(rng, 50)
	w.caughtUp(20 * time.Second)
	stop()
	w.remake(1, topic.Attempts)
	w.writeEvents(rng, 10)
	if out, err := w.replay("--verify", "--from=earliest"); lifecycle.Code(err) != 1 || !strings.Contains(out, "partition 0: the log ends before what was read of it") || !strings.Contains(out, "1 wrong") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What a user may type wrong, and what is said: which setting, what was wrong, what to do.
func TestReplaySaysWhatIsWrongWithFrom(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(75, 76))
	_, stop := w.run()
	w.writeEvents(rng, 20)
	w.caughtUp(20 * time.Second)
	stop()
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--from=yesterday"}, 2, []string{"from: ", "yesterday", "earliest", "2026-01-31T12:00:00Z", "0:1500,1:900"}},
		{[]string{"--from=2026-13-01T00:00:00Z"}, 2, []string{"from: ", "2026-13-01"}},
		{[]string{"--from=0:-1"}, 2, []string{"from: "}},
		{[]string{"--from=0:1,0:2"}, 2, []string{"from: partition 0 is named twice"}},
		{[]string{"--from=0:1,"}, 2, []string{"from: "}},
		{[]string{"--from=9:0"}, 1, []string{"from: there is no partition 9; the topic has 2"}},
		{[]string{"--from=0:100000"}, 1, []string{"from: partition 0 holds offsets 0 to ", "not 100000"}},
		{[]string{"--verify", "--from=0:100000"}, 1, []string{"from: partition 0 holds offsets 0 to ", "not 100000"}},
		{[]string{"--form=earliest"}, 2, []string{"unknown flag: --form", "did you mean --from?"}},
		{[]string{"earliest"}, 2, []string{`"earliest"`, "flags only"}},
	} {
		out, err := w.replay(c.args...)
		if lifecycle.Code(err) != c.code || err == nil {
			t.Errorf("%v: %v (exit code %d, want %d)\n%s", c.args, err, lifecycle.Code(err), c.code, out)
			continue
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v: %q is not said: %v", c.args, text, err)
			}
		}
	}
	w.kafka.Brokers = []string{"127.0.0.1:1"}
	if out, err := w.replay(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without Kafka: %v\n%s", err, out)
	}
	bare := *w
	bare.ch = chtest.New(t)
	if out, err := bare.replay(); err == nil || !strings.Contains(err.Error(), "schema version 0") || !strings.Contains(err.Error(), "turnout migrate") {
		t.Errorf("without a schema: %v\n%s", err, out)
	}
	bare.ch.Addr = []string{"127.0.0.1:1"}
	if out, err := bare.replay(); err == nil || !strings.Contains(err.Error(), "clickhouse at 127.0.0.1:1: ") {
		t.Errorf("without ClickHouse: %v\n%s", err, out)
	}
	if n := w.number("max(generation) FROM folds"); n != 1 {
		t.Errorf("a refused replay left generation %d", n)
	}
}
