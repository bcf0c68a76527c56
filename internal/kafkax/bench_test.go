package kafkax_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

// BenchmarkLog writes and reads records of an event's size in batches of 1,000.
func BenchmarkLog(b *testing.B) {
	client, err := kafkax.Open(kafkatest.New(b, 3), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	batch := make([]kafkax.Record, 1000)
	for i := range batch {
		batch[i] = kafkax.Record{Key: fmt.Append(nil, "request-", i), Value: bytes.Repeat(fmt.Appendf(nil, "%08d", i*7919), 112)}
	}
	w := client.NewWriter(topic.Attempts)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.Write(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("read", func(b *testing.B) {
		first, next, err := client.Bounds(b.Context(), topic.Attempts, 0)
		if err != nil {
			b.Fatal(err)
		}
		f := client.NewFetcher(topic.Attempts, 0, first)
		read, at := 0, first
		for b.Loop() {
			if at >= next {
				f, at = client.NewFetcher(topic.Attempts, 0, first), first
			}
			got, err := f.Fetch(b.Context(), 1000)
			if err != nil {
				b.Fatal(err)
			}
			if read += len(got); len(got) > 0 {
				at = got[len(got)-1].Offset + 1
			}
		}
		b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "records/s")
	})
}
