package deadletter

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// A foreign record may be as large as its topic takes, by its value, its key or its headers: with ours
// added the dead letter topic took it no more, and its partition stood still for ever.
func TestTheLargestForeignRecordIsPutAside(t *testing.T) {
	_, conn := chtest.Migrated(t)
	client, err := kafkax.Open(kafkatest.New(t, 1), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	noise := make([]byte, 8<<20-400) // what just fits
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	sources := []kafkax.Record{
		{Key: noise, Value: []byte("key")},
		{Key: []byte("k"), Value: noise},
		{Key: []byte("k"), Value: []byte("headers"), Headers: []kafkax.Header{{Key: "trace", Value: noise}}},
		{Key: []byte("k"), Value: []byte("small"), Headers: []kafkax.Header{{Key: "trace", Value: []byte("kept")}}},
	}
	for i := range sources {
		sources[i].Topic, sources[i].Time = topic.Attempts, time.Now()
		if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), sources[i:i+1]); err != nil {
			t.Fatalf("record %d is no foreign record, its topic does not take it: %v", i, err)
		}
		sources[i].Offset = int64(i)
		if err := New(client, conn).Write(t.Context(), []Letter{{Source: sources[i], Cause: "no JSON"}}); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	var rows uint64
	if err := conn.QueryRow(t.Context(), "SELECT count() FROM dead_letters WHERE cause = 'no JSON'").Scan(&rows); err != nil || rows != uint64(len(sources)) {
		t.Errorf("%d rows, %v", rows, err)
	}
	fetcher := client.NewFetcher(topic.DeadLetter, 0, 0)
	defer fetcher.Close()
	var got []kafkax.Record
	for len(got) < len(sources) {
		more, err := fetcher.Fetch(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, more...)
	}
	for i, r := range got {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		if headers[topic.HeaderDeadCause] != "no JSON" || headers[topic.HeaderDeadTopic] != topic.Attempts {
			t.Errorf("record %d does not say where it comes from", i)
		}
		if i == 3 && headers["trace"] != "kept" {
			t.Error("the headers of a small one are gone")
		}
	}
}
