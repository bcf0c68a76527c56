package emit

import (
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"turnout/internal/kafkax"
)

// A record with its key and headers, in a batch, is what the log stores: 250 bytes are promised.
func TestSizeInKafka(t *testing.T) {
	var b batch
	const n = 500
	b.reset(n)
	var records []*record
	for i := range n {
		e := ended(event(3 + i%8))
		e.StartedAt = e.StartedAt.Add(time.Duration(i) * 7 * time.Millisecond)
		e.Traceparent = "00-" + strings.ReplaceAll(newID(), "-", "") + "-" + e.SpanID + "-01"
		r := newRecord(kindEnd, uint64(i))
		r.encodeEvent(e, nil)
		records = append(records, r)
		b.add(r)
	}
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	each := len(zip.EncodeAll(flatten(b.records), nil)) / n
	t.Logf("%d bytes of JSON each, %d with key and headers after zstd", len(records[0].value), each)
	if each >= 250 {
		t.Errorf("%d bytes each", each)
	}
}

// flatten writes records as a batch holds them, but for the few bytes of lengths.
func flatten(records []kafkax.Record) (out []byte) {
	for _, r := range records {
		out = append(append(out, r.Key...), r.Value...)
		for _, h := range r.Headers {
			out = append(append(out, h.Key...), h.Value...)
		}
	}
	return out
}

func TestARecordIsTheSameReadBack(t *testing.T) {
	e := ended(event(4))
	r := newRecord(kindEnd, 7)
	r.encodeEvent(e, nil)
	var first, second batch
	first.reset(1)
	first.add(r)
	frames, _ := scan(t, r.frame)
	back, err := readRecord(frames[0])
	if err != nil {
		t.Fatal(err)
	}
	second.reset(1)
	second.add(back)
	if got, want := string(flatten(second.records)), string(flatten(first.records)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if back.seq != 7 || !back.finished.Equal(e.FinishedAt.Truncate(time.Microsecond)) {
		t.Errorf("%d, %s", back.seq, back.finished)
	}
}
