package processor

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// remake deletes topics and makes them again: offsets begin at 0 once more.
func (w *world) remake(partitions int, names ...string) {
	w.t.Helper()
	if err := w.client.DeleteTopics(w.t.Context(), names); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.client.EnsureTopics(w.t.Context(), topic.Specs(partitions)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(name string, records ...kafkax.Record) {
	w.t.Helper()
	if _, err := w.client.NewWriter(name).Write(w.t.Context(), records); err != nil {
		w.t.Fatal(err)
	}
}

// The old log had dead letters at places where the new one holds good records. A replay after the one
// that noticed the new log took these for the dead ones.
func TestAReplayKeepsGoodRecordsWhereAnOldLogHadDeadOnes(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(61, 62))
	_, stop := w.run()
	for range 10 {
		w.writeEvents(rng, 5)
		w.write(kafkax.Record{Key: []byte("k"), Value: []byte("not json")})
	}
	w.caughtUp(20 * time.Second)
	stop()
	w.remake(1, topic.Attempts)
	w.writeEvents(rng, 40)
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, stop = w.run()
	w.writeEvents(rng, 40)
	w.write(kafkax.Record{Key: []byte("k"), Value: []byte("not json in the new log either")})
	w.caughtUp(20 * time.Second)
	stop()
	w.counted(130)
	if out, err := w.replay(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.counted(130)
	if n := w.differing(2, 3); n != 0 {
		t.Errorf("%d buckets differ", n)
	}
	if n := w.number("count() FROM dead_letters FINAL"); n != 11 {
		t.Errorf("%d dead letters, want 10 of the old log and one of the new", n)
	}
}

func refusalRecord(t *testing.T, id string, at time.Time) kafkax.Record {
	t.Helper()
	value, err := attempt.AppendRefused(nil, &attempt.Refused{SchemaVersion: 1, EventID: id, RequestID: id, ProjectID: "p", Endpoint: "chat", At: at, StatusCode: 400, ErrorCode: "no_provider_available"})
	if err != nil {
		t.Fatal(err)
	}
	return kafkax.Record{Key: []byte(id), Value: value}
}

func setting(id, value string) kafkax.Record {
	return kafkax.Record{Key: []byte("project/" + id), Value: fmt.Appendf(nil, `{"schema_version":1,"kind":"project","id":%q,"name":%q}`, id, value)}
}

// Copying once went on at the old log's place, past the new one's beginning, and rows of the audit took
// the places of older ones.
func TestTopicsMadeAnewAreCopiedFromTheirBeginning(t *testing.T) {
	w := newWorld(t, 1)
	const old, fresh = 6, 9 // the new logs have grown past the old ones' ends
	for i := range old {
		w.put(topic.Requests, refusalRecord(t, fmt.Sprintf("old-%d", i), time.Now()))
		w.put(topic.Config, setting("acme", fmt.Sprintf("old-%d", i)))
	}
	copied := func(refusals, audits int64) func() bool {
		return func() bool {
			return w.number("count() FROM refusals FINAL") == refusals && w.number("count() FROM config_audit FINAL") == audits
		}
	}
	_, stop := w.run()
	eventually(t, 20*time.Second, "the old logs are copied", copied(old, old))
	stop()
	w.remake(1, topic.Requests, topic.Config)
	for i := range fresh {
		w.put(topic.Requests, refusalRecord(t, fmt.Sprintf("new-%d", i), time.Now()))
		w.put(topic.Config, setting("acme", fmt.Sprintf("new-%d", i)))
	}
	for range 2 {
		_, stop = w.run()
		eventually(t, 20*time.Second, "the new logs are copied whole, the old rows are still there", copied(old+fresh, old+fresh))
		stop()
	}
	if n := w.number("countIf(body LIKE '%old-%') FROM config_audit FINAL"); n != old {
		t.Errorf("%d rows of the old log are left in the audit", n)
	}
}

// Copying once tried a refused row for ever.
func TestARefusedRowDoesNotStopCopying(t *testing.T) {
	w := newWorld(t, 1)
	for _, statement := range []string{
		"ALTER TABLE refusals ADD CONSTRAINT poison CHECK request_id != 'poison'",
		"ALTER TABLE config_audit ADD CONSTRAINT poison CHECK position(body, 'poison') = 0",
	} {
		if err := w.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var refusals, settings []kafkax.Record
	for i := range 50 {
		id := fmt.Sprintf("r-%d", i)
		if i == 17 || i == 31 {
			id = "poison"
		}
		refusals = append(refusals, refusalRecord(t, id, time.Now().Add(time.Duration(i)*time.Millisecond)))
		settings = append(settings, setting("acme", id))
	}
	w.put(topic.Requests, refusals...)
	w.put(topic.Config, settings...)
	p, stop := w.run()
	eventually(t, 20*time.Second, "all but the refused rows are copied", func() bool {
		return w.number("count() FROM refusals FINAL") == 48 && w.number("count() FROM config_audit FINAL") == 48
	})
	eventually(t, 20*time.Second, "the refused ones are dead letters that name the cause", func() bool {
		return w.number("count() FROM dead_letters FINAL WHERE topic IN (?, ?) AND kafka_offset IN (17, 31) AND position(cause, 'poison') > 0", topic.Requests, topic.Config) == 4
	})
	for _, name := range []string{topic.Requests, topic.Config} {
		for fate, want := range map[string]int{"stored": 48, "dead": 2} {
			if line := fmt.Sprintf("turnout_processor_copied_total{fate=%q,topic=%q} %d", fate, name, want); !strings.Contains(scrape(t, p.metrics), line) {
				t.Errorf("metrics lack %s", line)
			}
		}
	}
	w.put(topic.Requests, refusalRecord(t, "later", time.Now()))
	eventually(t, 20*time.Second, "copying goes on", func() bool { return w.number("count() FROM refusals FINAL WHERE event_id = 'later'") == 1 })
	stop()
}

// scrape returns the metrics as /metrics shows them.
func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}
