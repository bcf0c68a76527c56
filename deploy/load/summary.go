package load

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Summary is what came back, all in all. Latencies count from when a request was due.
type Summary struct {
	Requests  int                 `json:"requests"`
	OK        int                 `json:"ok"`
	Streams   int                 `json:"streams"`
	Errors    map[string]int      `json:"errors"`  // by code
	Reasons   map[string]string   `json:"reasons"` // by code, that of its first error in words
	Providers map[string]Provider `json:"providers"`
	Retried   int                 `json:"retried"` // requests with more than one attempt
	LatencyMS Quantiles           `json:"latency_ms"`
	TTFTMS    Quantiles           `json:"ttft_ms"`
	MaxLagMS  float64             `json:"max_lag_ms"` // how late the latest request left
	ElapsedS  float64             `json:"elapsed_s"`
	Rate      float64             `json:"rate"` // requests/s that came back

	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CostNanoUSD      int64 `json:"cost_nano_usd"` // as the gateway said
}

// Provider is one provider's part of a summary.
type Provider struct {
	Requests     int     `json:"requests"`
	OK           int     `json:"ok"`
	Share        float64 `json:"share"` // of all requests
	PromptTokens int64   `json:"prompt_tokens"`
	CachedTokens int64   `json:"cached_tokens"`
	CostNanoUSD  int64   `json:"cost_nano_usd"`
}

// Quantiles are exact to 1 %.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// tally adds results up; its size does not depend on how many they are.
type tally struct {
	sum           Summary
	latency, ttft histogram
	maxLag        time.Duration
}

func newTally() *tally {
	return &tally{sum: Summary{Errors: map[string]int{}, Reasons: map[string]string{}, Providers: map[string]Provider{}}}
}

func (t *tally) add(r *Result) {
	s := &t.sum
	s.Requests++
	if r.Stream {
		s.Streams++
	}
	if r.Attempts > 1 {
		s.Retried++
	}
	p := s.Providers[r.Provider]
	p.Requests++
	if r.OK() {
		s.OK++
		p.OK++
		t.latency.add(r.Latency)
	} else {
		s.Errors[r.Code]++
		if s.Reasons[r.Code] == "" && r.Reason != "" {
			s.Reasons[r.Code] = r.Reason
		}
	}
	if r.TTFT > 0 {
		t.ttft.add(r.TTFT)
	}
	t.maxLag = max(t.maxLag, r.Lag)
	p.PromptTokens += r.PromptTokens
	p.CachedTokens += r.CachedTokens
	p.CostNanoUSD += r.CostNanoUSD
	if r.Provider != "" {
		s.Providers[r.Provider] = p
	}
	s.PromptTokens += r.PromptTokens
	s.CachedTokens += r.CachedTokens
	s.CompletionTokens += r.CompletionTokens
	s.CostNanoUSD += r.CostNanoUSD
}

func (t *tally) summary(elapsed time.Duration) Summary {
	s := t.sum
	s.LatencyMS = Quantiles{t.latency.quantile(.5), t.latency.quantile(.99)}
	s.TTFTMS = Quantiles{t.ttft.quantile(.5), t.ttft.quantile(.99)}
	s.MaxLagMS = float64(t.maxLag) / float64(time.Millisecond)
	s.ElapsedS = elapsed.Seconds()
	s.Rate = float64(s.Requests) / max(s.ElapsedS, 1e-9)
	for id, p := range s.Providers {
		p.Share = float64(p.Requests) / float64(s.Requests)
		s.Providers[id] = p
	}
	return s
}

// Print writes the summary for a person.
func (s Summary) Print(w io.Writer) error {
	var b []byte
	line := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	line("requests   %d (%d streams, %d retried) in %.1f s, %.1f/s", s.Requests, s.Streams, s.Retried, s.ElapsedS, s.Rate)
	line("ok         %d (%.2f %%)", s.OK, percent(int64(s.OK), int64(s.Requests)))
	for _, code := range slices.Sorted(maps.Keys(s.Errors)) {
		line("  %-24s %d", code, s.Errors[code])
		if reason := s.Reasons[code]; reason != "" {
			line("    first: %s", strings.Join(strings.Fields(reason), " "))
		}
	}
	line("latency    p50 %.1f ms, p99 %.1f ms", s.LatencyMS.P50, s.LatencyMS.P99)
	if s.TTFTMS.P50 > 0 {
		line("first token p50 %.1f ms, p99 %.1f ms", s.TTFTMS.P50, s.TTFTMS.P99)
	}
	line("left late  at most %.1f ms", s.MaxLagMS)
	line("tokens     %d in (%.1f %% cached), %d out", s.PromptTokens, percent(s.CachedTokens, s.PromptTokens), s.CompletionTokens)
	line("cost       %.6f USD", float64(s.CostNanoUSD)/1e9)
	for _, id := range slices.Sorted(maps.Keys(s.Providers)) {
		p := s.Providers[id]
		line("  %-16s %6.2f %%  %d requests, %d ok, %.1f %% cached, %.6f USD", id, 100*p.Share, p.Requests, p.OK, percent(p.CachedTokens, p.PromptTokens), float64(p.CostNanoUSD)/1e9)
	}
	_, err := w.Write(b)
	return err
}

func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// histogram counts durations in buckets 1 % wide, from 1 us to about 30 min.
type histogram struct {
	buckets [2150]uint32
	total   uint64
}

var logWidth = math.Log(1.01)

func (h *histogram) add(d time.Duration) {
	us := max(float64(d)/float64(time.Microsecond), 1)
	h.buckets[min(int(math.Log(us)/logWidth), len(h.buckets)-1)]++
	h.total++
}

// quantile returns milliseconds, 0 if there are none.
func (h *histogram) quantile(q float64) float64 {
	rank, seen := uint64(math.Ceil(q*float64(h.total))), uint64(0)
	for i, n := range h.buckets {
		if seen += uint64(n); n > 0 && seen >= rank {
			return math.Exp((float64(i)+.5)*logWidth) / 1000
		}
	}
	return 0
}
