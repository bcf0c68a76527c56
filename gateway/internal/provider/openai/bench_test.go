package openai

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/internal/testkit/upstream"
)

// cpu is the processor time of this process, user and system: both ends of the loopback are in it, so
// the difference of two clients is what counts.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func measured(b *testing.B, f func()) {
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu_us/op")
}

func BenchmarkPlain(b *testing.B) {
	answer := upstream.Chat(strings.Repeat("word ", 160))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	call := newCall(b, server.URL, `,"x":"`+strings.Repeat("y", 900)+`"`)
	b.Run("raw", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		measured(b, func() {
			resp, err := client.Post(server.URL, "application/json", bytes.NewReader(call.Body))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	})
	b.Run("adapter", func(b *testing.B) {
		a := newAdapter(b)
		measured(b, func() {
			answer, err := a.Complete(context.Background(), call)
			if err != nil {
				b.Fatal(err)
			}
			answer.Release()
		})
	})
}

func BenchmarkStream50(b *testing.B) {
	text := events(upstream.Chunk(`{"role":"assistant","content":""}`, ""))
	for i := range 50 {
		text += events(upstream.Chunk(fmt.Sprintf(`{"content":"token %d"}`, i), ""))
	}
	parts := strings.SplitAfter(text+events(upstream.Chunk(`{}`, "stop"), "[DONE]"), "\n\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	call := newCall(b, server.URL, streaming)
	b.Run("raw", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		buf := make([]byte, 32<<10)
		measured(b, func() {
			resp, err := client.Post(server.URL, "application/json", bytes.NewReader(call.Body))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.CopyBuffer(io.Discard, struct{ io.Reader }{resp.Body}, buf)
			resp.Body.Close()
		})
	})
	b.Run("adapter", func(b *testing.B) {
		a := newAdapter(b)
		measured(b, func() {
			s, failure := a.Stream(context.Background(), call)
			if failure != nil {
				b.Fatal(failure)
			}
			for {
				if _, err := s.Next(); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
			s.Close()
		})
	})
}

func BenchmarkChunk(b *testing.B) {
	data := []byte(upstream.Chunk(`{"content":"token"}`, ""))
	var p chunkParser
	model := []byte(`"catalogue/model"`)
	out := []byte{}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.parse(data); err != nil {
			b.Fatal(err)
		}
		p.edit(&p.edits, data, model, true)
		out = p.edits.Apply(out[:0], data)
	}
}

func BenchmarkAnswer(b *testing.B) {
	body := upstream.Chat(strings.Repeat("word ", 160))
	call := newCall(b, "http://x", ``)
	b.ReportAllocs()
	for b.Loop() {
		answer, err := parseAnswer(call, body, false)
		if err != nil {
			b.Fatal(err)
		}
		answer.Release()
	}
}
