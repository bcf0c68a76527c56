package processor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// typed is an event as gateways send it, with its CloudEvents type.
func typed(e *attempt.Event, kind string) kafkax.Record {
	r := record(e, false)
	r.Headers = []kafkax.Header{{Key: topic.HeaderSpecVersion, Value: []byte("1.0")}, {Key: topic.HeaderType, Value: []byte(kind)}}
	return r
}

// Whatever somebody writes into the attempts topic: it is counted, stands among the dead letters with
// the cause, and the records around it count.
func TestForeignRecordsArePutAsideAndTheRestCounts(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(81, 82))
	good := func(change func(*attempt.Event)) []byte {
		e := event(rng, time.Now())
		change(e)
		return attempt.Append(nil, e)
	}
	foreign := []struct {
		name, cause string
		record      kafkax.Record
	}{
		{"no JSON", "expected an object", kafkax.Record{Value: []byte("PK\x03\x04 what is this")}},
		{"binary", "", kafkax.Record{Value: []byte{0, 0, 0, 0, 7, 0xff, 0xfe}}},
		{"no value", "", kafkax.Record{Key: []byte("tombstone")}},
		{"JSON of another application", "event_id", kafkax.Record{Value: []byte(`{"schema_version":1,"user":"u","clicks":[1,2]}`)}},
		{"JSON list", "expected an object", kafkax.Record{Value: []byte(`[1,2,3]`)}},
		{"a version that never was", "schema_version", kafkax.Record{Value: []byte(`{"schema_version":0,"event_id":"x"}`)}},
		{"a version in words", "schema_version", kafkax.Record{Value: []byte(`{"schema_version":"two"}`)}},
		{"an attempt under way", "outcome", kafkax.Record{Value: good(func(e *attempt.Event) { e.Outcome = "" })}},
		{"an event of another type", `"com.example.order.created"`, typed(event(rng, time.Now()), "com.example.order.created")},
		{"a refusal", `"turnout.request.refused"`, typed(event(rng, time.Now()), topic.TypeRequestRefused)},
		{"an impossible time", "started_at", kafkax.Record{Value: good(func(e *attempt.Event) { e.StartedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) })}},
		{"a record of nearly the topic's limit", "", kafkax.Record{Value: bytes.Repeat([]byte("x"), 1<<20-4096)}},
		{"a cut event", "", kafkax.Record{Value: good(func(*attempt.Event) {})[:300]}},
	}
	total := 0
	for _, f := range foreign {
		total += len(w.writeEvents(rng, 10))
		f.record.Key = append(f.record.Key, 'k')
		w.write(f.record)
	}
	// What a later version writes is read as far as it is known, an outcome that nobody knows included.
	later := bytes.Replace(good(func(e *attempt.Event) {
		e.Outcome, e.EventID = "some_new_outcome", "0190a2b4-0000-7000-8000-00000000abcd"
	}),
		[]byte(`{"schema_version":1,`), []byte(`{"schema_version":7,"a_new_field":{"deep":[1,{"x":null}]},`), 1)
	w.write(kafkax.Record{Key: []byte("k"), Value: later}, typed(event(rng, time.Now()), topic.TypeAttemptFinished))
	total += 2 + len(w.writeEvents(rng, 10))

	p, stop := w.run()
	w.caughtUp(20 * time.Second)
	stop()
	if n := w.unique(); n != int64(total) {
		t.Errorf("%d rows for %d good events", n, total)
	}
	w.verified()
	if n := w.number("count() FROM attempts_unique WHERE event_id = '0190a2b4-0000-7000-8000-00000000abcd' AND schema_version = 7 AND outcome = 'some_new_outcome'"); n != 1 {
		t.Error("the event of a later version has no row")
	}
	for i, f := range foreign {
		var cause string
		if err := w.conn.QueryRow(t.Context(), "SELECT cause FROM dead_letters FINAL WHERE kafka_offset = ?", int64(i*11+10)).Scan(&cause); err != nil || cause == "" || !strings.Contains(cause, f.cause) {
			t.Errorf("%s: cause %q, want one with %q; %v", f.name, cause, f.cause, err)
		}
	}
	if line := fmt.Sprintf("turnout_processor_dead_letters_total %d\n", len(foreign)); !strings.Contains(scrape(t, p.metrics), line) {
		t.Errorf("metrics lack %s", line)
	}
}

// A node whose clock is an hour off, and that could not ask ClickHouse for the time: its events count,
// in the hours they name; those of the future are in no snapshot until then, and the log names the node.
func TestAnHourOfClockSkewIsCountedAndSurvived(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(83, 84))
	skewed := func(node, provider string, by time.Duration) {
		for range 20 {
			e := event(rng, time.Now().Add(by))
			e.NodeID, e.Provider, e.CredentialSource, e.Outcome = node, provider, attempt.Platform, attempt.Completed
			w.write(record(e, false))
		}
	}
	skewed("right", "on-time", 0)
	skewed("fast", "ahead", time.Hour)
	skewed("slow", "behind", -time.Hour)
	var log syncBuffer
	p, stop := w.run(func(p *Processor) { p.log = textLog(&log) })
	w.caughtUp(20 * time.Second)
	w.counted(60)
	eventually(t, 15*time.Second, "a snapshot holds all that it may", func() bool {
		set, err := w.readSnapshot(t.Context())
		if err != nil || set.Head.WatermarkSum() != 59 {
			return false
		}
		have := map[string]int64{}
		for _, row := range set.Rows[""] {
			for _, s := range row.Tier {
				have[row.Provider] += s.Attempts
			}
		}
		if have["on-time"] != 20 || have["ahead"] != 0 || have["behind"] > 20 { // an hour ago is at the window's edge
			t.Errorf("the snapshot holds %v", have)
		}
		return true
	})
	stop()
	metrics := scrape(t, p.metrics)
	for fate, n := range map[string]int{"applied": 60, "early": 20, "late": 20, "dropped": 0} {
		if line := fmt.Sprintf("turnout_processor_events_total{fate=%q} %d\n", fate, n); !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if text := log.String(); !strings.Contains(text, "a gateway's clock is ahead") || !strings.Contains(text, "nodes=[fast]") {
		t.Errorf("the log does not name the node:\n%s", text)
	}
}
