package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// target is what is driven: an address and what to send there.
type target struct {
	name, url, key, model string
	pid                   int // whose CPU and memory are counted
}

// round is one measurement of one target.
type round struct {
	requests, failures int
	wall               time.Duration
	cpu                time.Duration
	rssMiB             float64
	latencies          []time.Duration // to the last byte, or to the first chunk of a stream
}

func (r round) perSecond() float64 { return float64(r.requests) / r.wall.Seconds() }

func (r round) cpuPerRequest() float64 {
	if r.requests == 0 {
		return 0
	}
	return float64(r.cpu.Microseconds()) / float64(r.requests)
}

func (r round) percentile(p float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	sorted := slices.Clone(r.latencies)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func body(model string, stream bool) []byte {
	text := fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"You are terse."},{"role":"user","content":%q}],"temperature":0.2`, model, bytes.Repeat([]byte("measure twice, cut once. "), 30))
	if stream {
		text += `,"stream":true`
	}
	return []byte(text + "}")
}

func client(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}}
}

// saturate drives a target with connections clients in closed loops for d.
func saturate(ctx context.Context, t target, connections int, stream bool, d time.Duration) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	c := client(connections)
	defer c.CloseIdleConnections()
	payload := body(t.model, stream)
	before, err := cpuOf(t.pid)
	if err != nil {
		return round{}, err
	}
	var requests, failures atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range connections {
		wg.Go(func() {
			for time.Since(began) < d {
				if _, err := send(ctx, c, t, payload); err != nil {
					failures.Add(1)
					continue
				}
				requests.Add(1)
			}
		})
	}
	wg.Wait()
	wall := time.Since(began)
	after, err := cpuOf(t.pid)
	if err != nil {
		return round{}, err
	}
	rss, err := rssOf(t.pid)
	if err != nil {
		return round{}, err
	}
	return round{requests: int(requests.Load()), failures: int(failures.Load()), wall: wall, cpu: after - before, rssMiB: rss}, nil
}

// pace drives a target at a fixed rate, open loop: a request is due when it is due, and its latency
// counts from then.
func pace(ctx context.Context, t target, rate float64, stream bool, d time.Duration) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	c := client(256)
	defer c.CloseIdleConnections()
	payload := body(t.model, stream)
	total := int(rate * d.Seconds())
	latencies := make([]time.Duration, total)
	var failures atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range total {
		due := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		wg.Go(func() {
			first, err := send(ctx, c, t, payload)
			if err != nil {
				failures.Add(1)
				return
			}
			latencies[i] = first.Sub(due)
		})
	}
	wg.Wait()
	latencies = slices.DeleteFunc(latencies, func(l time.Duration) bool { return l == 0 })
	return round{requests: len(latencies), failures: int(failures.Load()), wall: time.Since(began), latencies: latencies}, nil
}

// send makes one request and returns when its first chunk (a stream) or last byte (plain) was there.
func send(ctx context.Context, c *http.Client, t target, payload []byte) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", bytes.NewReader(payload))
	if err != nil {
		return time.Time{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.key)
	resp, err := c.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return time.Time{}, fmt.Errorf("%s answered %s: %s", t.name, resp.Status, text)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		_, err = io.Copy(io.Discard, resp.Body)
		return time.Now(), err
	}
	reader := bufio.NewReader(resp.Body)
	if _, err := reader.ReadSlice('\n'); err != nil {
		return time.Time{}, err
	}
	first := time.Now()
	rest, err := io.ReadAll(reader)
	if err == nil && !bytes.HasSuffix(bytes.TrimSpace(rest), []byte("data: [DONE]")) {
		err = errors.New("stream without [DONE]")
	}
	return first, err
}
