package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say what to send. URL and Model are required, and one of Requests, Duration and Trace.
type Options struct {
	URL          string // of the gateway, with or without /v1
	Key          string
	Models       []string // one is drawn for each request
	Requests     int      // 0: no bound of its own
	Duration     time.Duration
	Rate         float64 // requests/s; 0: as fast as Concurrency allows
	Concurrency  int     // requests under way at most; 0: 64, or 1024 with a rate
	StreamShare  float64 // of the requests, 0 to 1
	Seed         uint64
	PromptTokens int           // 0: 100
	MaxTokens    int           // 0: not sent
	Timeout      time.Duration // of one request; 0: 10 min
	Trace        []TraceRequest
	Speed        float64 // of the trace; 0: 1
	Sessions     bool    // send the trace's sessions as x-session-id
	AllowRemote  bool    // the gateway may be elsewhere than on this machine
}

const maxConcurrency = 10_000

// Validate joins all mistakes.
func (o Options) Validate() error {
	var mistakes []error
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	if target, err := url.Parse(o.URL); err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		wrong("url: %q is not like http://127.0.0.1:8080", o.URL)
	} else if !o.AllowRemote && !isLoopback(target.Hostname()) {
		wrong("url: %s is not on this machine; load on another one needs --allow-remote", target.Hostname())
	}
	if len(o.Models) == 0 || strings.TrimSpace(strings.Join(o.Models, "")) == "" {
		wrong("model: is missing")
	}
	if o.Requests < 0 {
		wrong("requests: %d is below 0", o.Requests)
	}
	if o.Duration < 0 {
		wrong("duration: %s is below 0", o.Duration)
	}
	if o.Requests == 0 && o.Duration == 0 && len(o.Trace) == 0 {
		wrong("requests: say how many, or for how long (duration), or what to replay (trace)")
	}
	if !(o.Rate >= 0 && o.Rate <= 1e6) {
		wrong("rate: %v is not within 0 and 1000000", o.Rate)
	}
	if o.Concurrency < 0 || o.Concurrency > maxConcurrency {
		wrong("concurrency: %d is not within 1 and %d", o.Concurrency, maxConcurrency)
	}
	if !(o.StreamShare >= 0 && o.StreamShare <= 1) {
		wrong("stream_share: %v is not within 0 and 1", o.StreamShare)
	}
	if o.PromptTokens < 0 || o.PromptTokens > maxTraceTokens {
		wrong("prompt_tokens: %d is not within 0 and %d", o.PromptTokens, maxTraceTokens)
	}
	if o.MaxTokens < 0 {
		wrong("max_tokens: %d is below 0", o.MaxTokens)
	}
	if o.Timeout < 0 {
		wrong("timeout: %s is below 0", o.Timeout)
	}
	if !(o.Speed >= 0 && o.Speed <= 1e6) {
		wrong("speed: %v is not within 0 and 1000000", o.Speed)
	}
	if len(o.Trace) > 0 && o.Rate > 0 {
		wrong("rate: a trace brings its own times; use speed")
	}
	if o.Sessions && (len(o.Trace) == 0 || o.Trace[0].Blocks == nil) {
		wrong("sessions: only a Mooncake trace has sessions")
	}
	return errors.Join(mistakes...)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o Options) withDefaults() Options {
	if o.Concurrency == 0 && o.Rate > 0 {
		o.Concurrency = 1024 // a rate is kept whether or not answers come
	}
	if o.Concurrency == 0 {
		o.Concurrency = 64
	}
	if o.PromptTokens == 0 {
		o.PromptTokens = 100
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	o.URL = strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/v1")
	return o
}

// job is one request to send.
type job struct {
	index   int
	due     time.Time
	session int // 0: none
}

// Run sends the load and returns what came back. Each result is also handed to each, if that is not
// nil: in order of completion, one at a time; while it runs, workers wait, but no latency is measured
// then. When ctx ends, requests under way are given up and the summary so far is returned with the
// context's error.
func Run(ctx context.Context, o Options, each func(Result)) (Summary, error) {
	if err := o.Validate(); err != nil {
		return Summary{}, err
	}
	o = o.withDefaults()
	transport := &http.Transport{MaxIdleConns: o.Concurrency, MaxIdleConnsPerHost: o.Concurrency, DisableCompression: true, IdleConnTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	d := &driver{options: o, client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}

	jobs, results := make(chan job), make(chan Result)
	start := time.Now()
	go func() {
		defer close(jobs)
		d.schedule(ctx, start, jobs)
	}()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() {
			w := worker{driver: d}
			for j := range jobs {
				results <- w.send(ctx, j)
			}
		})
	}
	go func() {
		workers.Wait()
		close(results)
	}()
	t := newTally()
	for r := range results {
		t.add(&r)
		if each != nil {
			each(r)
		}
	}
	return t.summary(time.Since(start)), ctx.Err()
}

type driver struct {
	options Options
	client  *http.Client
}

// schedule hands out the jobs when they are due, until there are no more or ctx ends.
func (d *driver) schedule(ctx context.Context, start time.Time, jobs chan<- job) {
	o := &d.options
	var sessions []int
	if o.Sessions {
		sessions = Sessions(o.Trace)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; (o.Requests == 0 || i < o.Requests) && (o.Trace == nil || i < len(o.Trace)); i++ {
		var offset time.Duration
		paced := true
		switch {
		case o.Trace != nil:
			offset = time.Duration(float64(o.Trace[i].At) / o.Speed)
		case o.Rate > 0:
			offset = time.Duration(float64(i) / o.Rate * float64(time.Second))
		default:
			offset, paced = time.Since(start), false
		}
		if o.Duration > 0 && offset >= o.Duration {
			return
		}
		j := job{index: i}
		if paced {
			j.due = start.Add(offset)
		}
		if sessions != nil {
			j.session = sessions[i]
		}
		if left := time.Until(j.due); paced && left > 0 {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case jobs <- j:
		case <-ctx.Done():
			return
		}
	}
}

// worker sends one request after the other.
type worker struct {
	*driver
	body []byte
}

// isStream draws whether a request is a stream.
func (d *driver) isStream(index int) bool {
	return float64(mix(mix(d.options.Seed^0x73747265616d)^uint64(index))>>11)/(1<<53) < d.options.StreamShare
}

// render writes the request's body.
func (w *worker) render(j job, stream bool) {
	o := &w.options
	model := o.Models[mix(mix(o.Seed^0x6d6f64656c)^uint64(j.index))%uint64(len(o.Models))]
	b := append(w.body[:0], `{"model":`...)
	b = strconv.AppendQuote(b, model)
	b = append(b, `,"messages":[{"role":"user","content":"`...)
	maxTokens, exact := o.MaxTokens, false
	switch {
	case o.Trace == nil:
		b = appendText(b, mix(o.Seed)^uint64(j.index), o.PromptTokens)
	case o.Trace[j.index].Blocks != nil:
		t := &o.Trace[j.index]
		b = appendBlocks(b, t.Blocks, t.InputTokens)
		maxTokens, exact = max(t.OutputTokens, 1), true
	default:
		t := &o.Trace[j.index]
		b = appendText(b, mix(o.Seed)^uint64(j.index), max(t.InputTokens, 1))
		maxTokens, exact = max(t.OutputTokens, 1), true
	}
	b = append(b, `"}]`...)
	if stream {
		b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	if maxTokens > 0 {
		b = append(b, `,"max_tokens":`...)
		b = strconv.AppendInt(b, int64(maxTokens), 10)
	}
	if exact { // as vLLM reads it: no earlier end
		b = append(b, `,"min_tokens":`...)
		b = strconv.AppendInt(b, int64(maxTokens), 10)
	}
	w.body = append(b, '}')
}
