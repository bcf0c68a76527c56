package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"turnout/deploy/sim"
	"turnout/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is a simulated provider p driven as if it were a gateway.
func gateway(t *testing.T, change func(*sim.Behavior)) (*sim.Server, string) {
	t.Helper()
	b := sim.DefaultBehavior()
	b.OutputTokens, b.Cache.BlockTokens = sim.Fixed(10), BlockTokens
	if change != nil {
		change(&b)
	}
	s, err := sim.New(sim.Options{Seed: 1, Providers: []sim.Provider{{ID: "p", Keys: []string{"the-test-key"}, Behavior: b, Models: []sim.Model{{ID: "m"}, {ID: "n"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil { // ends silence, so that the server can close
			t.Error(err)
		}
		server.Close()
	})
	return s, server.URL + "/p"
}

func TestSummaryIsWhatTheLedgerSays(t *testing.T) {
	s, url := gateway(t, func(b *sim.Behavior) {
		b.ErrorRate, b.ErrorKinds = .2, []string{sim.ErrorServer, sim.ErrorHTML, sim.ErrorInBand}
		b.CutRate, b.CutAfter = .2, 1
	})
	seen := map[int]bool{}
	sum, err := Run(t.Context(), Options{URL: url, Key: "the-test-key", Models: []string{"m", "n"}, Requests: 400, Concurrency: 8, StreamShare: .5, PromptTokens: 40, Seed: 3}, func(r Result) {
		if seen[r.Index] || r.OK() && r.Stream && (r.TTFT <= 0 || r.TTFT > r.Latency) || r.OK() && r.CompletionTokens != 10 {
			t.Errorf("result %+v", r)
		}
		seen[r.Index] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{Errors: map[string]int{}}
	models := map[string]int{}
	for _, e := range s.Ledger(0) {
		want.Requests++
		models[e.Model]++
		if e.Stream {
			want.Streams++
		}
		switch {
		case e.Fault == "":
			want.OK++
			want.PromptTokens += int64(e.InputTokens)
			want.CompletionTokens += int64(e.OutputTokens)
		case e.Fault == sim.FaultCut:
			want.Errors[CodeStreamCut]++
		case e.Fault == sim.ErrorInBand:
			want.Errors["internal_error"]++
		case e.Fault == sim.ErrorServer:
			want.Errors["server_error"]++
		case e.Fault == sim.ErrorHTML:
			want.Errors["http_502"]++
		}
	}
	if sum.Requests != 400 || sum.Requests != want.Requests || sum.OK != want.OK || sum.Streams != want.Streams || fmt.Sprint(sum.Errors) != fmt.Sprint(want.Errors) ||
		sum.PromptTokens != want.PromptTokens || sum.PromptTokens != int64(40*sum.OK) || sum.CompletionTokens != want.CompletionTokens {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	if len(want.Errors) != 4 || sum.Streams < 150 || sum.Streams > 250 || models["m"] < 150 || models["n"] < 150 {
		t.Errorf("streams %d, models %v, errors %v", sum.Streams, models, want.Errors)
	}
}

func TestReplayHitsCachesAsItsBlockIDsSay(t *testing.T) {
	requests, err := ReadTrace(original("mooncake-conversation.jsonl"))
	if err != nil {
		t.Logf("%v: replaying the sample", err)
		if requests, err = ReadTrace("testdata/mooncake-sample.jsonl"); err != nil {
			t.Fatal(err)
		}
	}
	requests = requests[:min(len(requests), 150)]
	s, url := gateway(t, nil)
	sum, err := Run(t.Context(), Options{URL: url, Key: "the-test-key", Models: []string{"m"}, Trace: requests, Speed: 1e6, Concurrency: 1}, nil)
	if err != nil || sum.OK != len(requests) {
		t.Fatalf("%v %+v", err, sum)
	}
	seen := map[uint64]bool{}
	var in, out, cached int64
	for i, e := range s.Ledger(0) {
		r, hits := requests[i], 0
		whole := r.Blocks[:r.InputTokens/BlockTokens]
		for hits < len(whole) && seen[whole[hits]] {
			hits++
		}
		for _, id := range whole {
			seen[id] = true
		}
		if e.InputTokens != r.InputTokens || e.OutputTokens != r.OutputTokens || e.CachedInputTokens != hits*BlockTokens {
			t.Fatalf("request %d: %+v, ledger %+v, %d blocks known", i, r, e, hits)
		}
		in, out, cached = in+int64(r.InputTokens), out+int64(r.OutputTokens), cached+int64(hits*BlockTokens)
	}
	if sum.PromptTokens != in || sum.CompletionTokens != out || sum.CachedTokens != cached || cached == 0 {
		t.Errorf("%+v, want %d in, %d cached, %d out", sum, in, cached, out)
	}
}

// recorder answers at once, or slowly, and keeps what it was sent.
type recorder struct {
	mu       sync.Mutex
	bodies   []string
	sessions []string
	delay    time.Duration
	answer   string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	time.Sleep(r.delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(body))
	r.sessions = append(r.sessions, req.Header.Get("X-Session-Id"))
	w.Header().Set("X-Turnout-Provider", "from-header")
	w.Header().Set("X-Turnout-Attempts", "2")
	io.WriteString(w, r.answer)
}

func record(t *testing.T, o Options, r *recorder) ([]Result, Summary) {
	t.Helper()
	server := httptest.NewServer(r)
	defer server.Close()
	o.URL, o.Models = server.URL+"/v1/", []string{"m"}
	var results []Result
	sum, err := Run(t.Context(), o, func(r Result) { results = append(results, r) })
	if err != nil {
		t.Fatal(err)
	}
	return results, sum
}

const smallAnswer = `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":2},"metadata":{"request_id":"r-1","used_provider":"from-metadata","cost_usd":0.000012345}}`

// A slow gateway must not slow the load down and hide it: the last of ten requests due 10 ms apart,
// each taking 50 ms one after the other, is answered 410 ms after it was due.
func TestNoCoordinatedOmission(t *testing.T) {
	results, sum := record(t, Options{Requests: 10, Rate: 100, Concurrency: 1}, &recorder{delay: 50 * time.Millisecond, answer: smallAnswer})
	last := results[len(results)-1]
	if last.Index != 9 || last.Latency < 400*time.Millisecond || last.Lag < 350*time.Millisecond || sum.LatencyMS.P99 < 400 || sum.MaxLagMS < 350 {
		t.Errorf("last %+v, %+v", last, sum)
	}
}

func TestRateIsKept(t *testing.T) {
	results, sum := record(t, Options{Duration: 300 * time.Millisecond, Rate: 100}, &recorder{answer: smallAnswer})
	if len(results) != 30 || sum.ElapsedS < .28 || sum.ElapsedS > 2 {
		t.Errorf("%d requests in %.2f s", len(results), sum.ElapsedS)
	}
}

func TestOneSeedOneLoad(t *testing.T) {
	sent := func(seed uint64) []string {
		r := &recorder{answer: smallAnswer}
		record(t, Options{Requests: 20, Concurrency: 1, Seed: seed, StreamShare: .5, MaxTokens: 9}, r)
		return r.bodies
	}
	a := sent(1)
	if !slices.Equal(a, sent(1)) || slices.Equal(a, sent(2)) {
		t.Error("the load is no function of the seed")
	}
	for _, body := range a {
		if !json.Valid([]byte(body)) || !strings.Contains(body, `"max_tokens":9}`) {
			t.Errorf("body %s", body)
		}
	}
}

func TestSessionsAreSent(t *testing.T) {
	trace, err := ReadTrace("testdata/mooncake-sample.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{answer: smallAnswer}
	record(t, Options{Trace: trace, Speed: 1e6, Concurrency: 1, Sessions: true}, r)
	if got := fmt.Sprint(r.sessions); got != "[trace-1 trace-2 trace-3 trace-1 trace-2 trace-1 trace-2 trace-4 trace-1 trace-2]" {
		t.Error(got)
	}
}

func TestMetadataIsRead(t *testing.T) {
	results, sum := record(t, Options{Requests: 2}, &recorder{answer: smallAnswer})
	if r := results[0]; r.Provider != "from-metadata" || r.RequestID != "r-1" || r.CostNanoUSD != 12345 || r.Attempts != 2 || sum.CostNanoUSD != 24690 || sum.Retried != 2 || sum.Providers["from-metadata"].Share != 1 {
		t.Errorf("%+v %+v", r, sum)
	}
	results, _ = record(t, Options{Requests: 1}, &recorder{answer: `{"choices":[{}],"metadata":"the upstream's own","turnout":{"used_provider":"q","cost_usd":"1.5"}}`})
	if r := results[0]; !r.OK() || r.Provider != "q" || r.CostNanoUSD != 1_500_000_000 {
		t.Errorf("%+v", r)
	}
	results, _ = record(t, Options{Requests: 1}, &recorder{answer: `<html>`})
	if r := results[0]; r.Code != CodeBadAnswer || r.Provider != "from-header" {
		t.Errorf("%+v", r)
	}
	stream := "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n: comment\n\ndata:{\"choices\":[],\"usage\":{\"completion_tokens\":7},\"turnout\":{\"used_provider\":\"q\"}}\n\ndata: [DONE]\n\n"
	results, sum = record(t, Options{Requests: 1, StreamShare: 1}, &recorder{answer: stream})
	if r := results[0]; !r.OK() || r.TTFT <= 0 || r.CompletionTokens != 7 || r.Provider != "q" || sum.TTFTMS.P50 <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestEndingARun(t *testing.T) {
	_, url := gateway(t, func(b *sim.Behavior) { b.SilenceRate = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	sum, err := Run(ctx, Options{URL: url, Key: "the-test-key", Models: []string{"m"}, Requests: 1000, Concurrency: 4}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || sum.OK != 0 || sum.Requests < 4 || time.Since(begin) > 2*time.Second {
		t.Errorf("%v %+v after %s", err, sum, time.Since(begin))
	}
	sum, err = Run(t.Context(), Options{URL: url, Key: "the-test-key", Models: []string{"m"}, Requests: 2, Timeout: 30 * time.Millisecond}, nil)
	if err != nil || sum.Errors[CodeTimeout] != 2 {
		t.Errorf("%v %+v", err, sum)
	}
	sum, err = Run(t.Context(), Options{URL: "http://127.0.0.1:1", Models: []string{"m"}, Requests: 2}, nil)
	if err != nil || sum.Errors[CodeNetwork] != 2 {
		t.Errorf("%v %+v", err, sum)
	}
}

func TestHistogramIsExactToOnePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, 1_000_000_000), 1, 300).Draw(t, "us")
		var h histogram
		for _, us := range values {
			h.add(time.Duration(us) * time.Microsecond)
		}
		slices.Sort(values)
		for _, q := range []float64{.5, .99} {
			want := float64(values[int(math.Ceil(q*float64(len(values))))-1]) / 1000
			if got := h.quantile(q); math.Abs(got/want-1) > .01 {
				t.Fatalf("quantile %v of %v: %v, want %v", q, values, got, want)
			}
		}
	})
}

func TestMainPrintsASummary(t *testing.T) {
	_, url := gateway(t, nil)
	var out bytes.Buffer
	run := func(args ...string) error {
		out.Reset()
		return Main(t.Context(), lifecycle.Env{Args: args, Stdout: &out}, nil)
	}
	if err := run("--url="+url, "--key=the-test-key", "--model=m,n", "--requests=20", "--stream-share=0.5", "--json"); err != nil {
		t.Fatal(err)
	}
	var sum Summary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil || sum.OK != 20 {
		t.Errorf("%v %s", err, out.String())
	}
	if err := run("--url="+url, "--key=the-test-key", "--model=m", "--trace=testdata/azure-sample.csv", "--speed=1000"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "782 in") || !strings.Contains(out.String(), "156 out") {
		t.Error(out.String())
	}
	for _, c := range []struct{ args, want string }{
		{"--url=http://192.0.2.1", "--allow-remote"},
		{"--url=localhost", "url:"},
		{"--rate=-1", "rate:"},
		{"--stream-share=2", "stream_share:"},
		{"--sessions", "sessions:"},
		{"--trace=/nonexistent", "opening trace"},
		{"--concurrency=100000", "concurrency:"},
		{"stray", "stray"},
	} {
		if err := run(c.args); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
