package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// read lists all events of a stream as text, with its error.
func read(r io.Reader) (events []string, raw []byte, err error) {
	reader := NewReader(r)
	defer reader.Release()
	for {
		e, err := reader.Next()
		if err != nil {
			return events, raw, err
		}
		if e.Lines == 1 && string(e.Raw[e.At:e.At+len(e.Data)]) != string(e.Data) {
			return nil, nil, fmt.Errorf("data %q is not at %d of %q", e.Data, e.At, e.Raw)
		}
		events = append(events, fmt.Sprintf("%s|%s|%d|%v", e.Name, e.Data, e.Lines, e.Whole))
		raw = append(raw, e.Raw...)
	}
}

func TestReader(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want string // events joined by a space
	}{
		{"data: a\n\ndata: b\n\n", "|a|1|true |b|1|true"},
		{"data:a\r\n\r\ndata:  b\r\n\r\n", "|a|1|true | b|1|true"},
		{"data: a\r\rdata: b\r\r", "|a|1|true |b|1|true"},
		{"data: {\ndata: }\n\n", "|{\n}|2|true"},
		{"event: error\nid: 7\nretry: 5\ndata: x\n\n", "error|x|1|true"},
		{"event:\ndata\ndata\n\n", "|\n|2|true"},
		{": hi\n\n:\n\ndata: a\n\n", "||0|true ||0|true |a|1|true"},
		{": hi\ndata: a\n: there\n\n", "|a|1|true"},
		{"\n\n\r\n\ndata: a\n\n\n\n", "|a|1|true"},
		{"data: [DONE]", "|[DONE]|1|false"},
		{"data: [DONE]\n", "|[DONE]|1|false"},
		{"data: [DONE]\r", "|[DONE]|1|false"},
		{"data: a\n\ndata: {\"x", "|a|1|true |{\"x|1|false"},
		{"\xef\xbb\xbfdata: a\n\n", "|a|1|true"},
		{"{\"error\":\"json\"}\n\n", "||0|true"},
		{"", ""},
		{"\n", ""},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(tc.in), "bytes": iotest.OneByteReader(strings.NewReader(tc.in)), "eof with data": iotest.DataErrReader(strings.NewReader(tc.in))} {
			events, _, err := read(r)
			if got := strings.Join(events, " "); got != tc.want || err != io.EOF {
				t.Errorf("%q (%s): %q %v, want %q", tc.in, name, got, err, tc.want)
			}
		}
	}
}

func TestErrorComesAfterWhatWasRead(t *testing.T) {
	broken := errors.New("reset")
	events, _, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)))
	if fmt.Sprint(events) != "[|a|1|true |b|1|false]" || err != broken {
		t.Fatalf("%q %v", events, err)
	}
}

func TestLimit(t *testing.T) {
	event := func(n int) string { return "data: " + strings.Repeat("x", n-8) + "\n\n" }
	for _, before := range []string{"", "data: y\n\n", event(5000)} {
		events, _, err := read(strings.NewReader(before + event(MaxEvent) + event(10)))
		if err != io.EOF || len(events) != 2+min(1, len(before)) {
			t.Errorf("1 MiB: %d events, %v", len(events), err)
		}
		events, _, err = read(strings.NewReader(before + event(MaxEvent+1) + event(10)))
		if err != ErrTooLarge || len(events) != min(1, len(before)) {
			t.Errorf("1 MiB and 1: %d events, %v", len(events), err)
		}
		_, _, err = read(strings.NewReader(before + event(3*MaxEvent)))
		if err != ErrTooLarge {
			t.Errorf("3 MiB: %v", err)
		}
	}
}

func TestMemoryStaysSmall(t *testing.T) {
	line := strings.Repeat("data: "+strings.Repeat("x", 90)+"\n\n", 50_000)
	r := NewReader(strings.NewReader(line))
	for n := 0; ; n++ {
		if _, err := r.Next(); err != nil {
			if n != 50_000 {
				t.Fatalf("%d events", n)
			}
			break
		}
	}
	if len(r.buf) != bufferSize {
		t.Fatalf("buffer of %d bytes", len(r.buf))
	}
}

// Any split of the bytes gives the same events, and the raw bytes are those that came.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\ndata: b\n\n: c\n\nevent: e\rdata:x\r\r\xef\xbb\xbf"), uint16(3))
	f.Add([]byte("\xef\xbb\xbfdata: é\n\ndata: [DONE]"), uint16(1))
	f.Add([]byte("\n\xef\xbb\xbfdata\n\n"), uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, step uint16) {
		want, raw, err := read(bytes.NewReader(stream))
		got, raw2, err2 := read(&chunked{rest: stream, step: int(step)%17 + 1})
		if fmt.Sprint(want) != fmt.Sprint(got) || !bytes.Equal(raw, raw2) || err != err2 {
			t.Fatalf("%q in steps of %d:\n%q %v\n%q %v", stream, step%17+1, got, err2, want, err)
		}
		text := func(b []byte) []byte {
			return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\n"), nil), []byte("\r"), nil)
		}
		if !bytes.Equal(text(bytes.TrimPrefix(stream, []byte("\xef\xbb\xbf"))), text(raw)) {
			t.Fatalf("%q: raw bytes %q", stream, raw)
		}
	})
}

type chunked struct {
	rest []byte
	step int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.step)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	stream := []byte(strings.Repeat("data: "+strings.Repeat("x", 200)+"\n\n", 50))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(stream))
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		r.Release()
	}
}
