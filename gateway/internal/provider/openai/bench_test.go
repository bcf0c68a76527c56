package openai

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// measured runs f on 32 connections.
func measured(b *testing.B, f func()) {
	b.ReportAllocs()
	b.SetParallelism(32 / runtime.GOMAXPROCS(0))
	start := cpu()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f()
		}
	})
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
		client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
		defer client.CloseIdleConnections()
		measured(b, func() {
			resp, err := client.Post(server.URL, "application/json", bytes.NewReader(call.Body))
			if err != nil {
				panic(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	})
	b.Run("adapter", func(b *testing.B) {
		a := newAdapter(b)
		measured(b, func() {
			mine := *call
			answer, err := a.Complete(context.Background(), &mine)
			if err != nil {
				panic(err)
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
		client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
		defer client.CloseIdleConnections()
		measured(b, func() {
			resp, err := client.Post(server.URL, "application/json", bytes.NewReader(call.Body))
			if err != nil {
				panic(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	})
	b.Run("adapter", func(b *testing.B) {
		a := newAdapter(b)
		measured(b, func() {
			mine := *call
			s, failure := a.Stream(context.Background(), &mine)
			if failure != nil {
				panic(failure)
			}
			for {
				if _, err := s.Next(); err == io.EOF {
					break
				} else if err != nil {
					panic(err)
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
