package soak

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

const (
	token      = "to-soak-0000000000000000000000000000"
	partitions = 3
)

// tally is what the clients saw.
type tally struct {
	mu     sync.Mutex
	ends   map[string]int
	whole  map[string]int // chunks by span of the call that served it
	faults []string
}

func (c *tally) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[how]++
}

func (c *tally) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func TestSoak(t *testing.T) {
	duration := length
	if text := os.Getenv("TURNOUT_SOAK_TIME"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("TURNOUT_SOAK_TIME: %v; say how long, such as 5m", err)
		}
	}
	up, e := newHostile(t), startEngines(t)
	e.processor(t)
	n := e.gateway(t, resources(up.URL))
	seen := &tally{ends: map[string]int{}, whole: map[string]int{}}

	load(t, n, seen, warmUp)
	before := n.rest(size{goroutines: 1 << 20, rss: 1 << 20}, 30*time.Second)
	most := load(t, n, seen, duration)
	limit := size{goroutines: before.goroutines + before.goroutines/10, rss: before.rss*1.1 + spare}
	after := n.rest(limit, 30*time.Second)
	t.Logf("goroutines: %d after warm-up, %d at most, %d in the end; RSS in MB: %.1f, %.1f, %.1f; heap in use in MB: %.1f, %.1f, %.1f",
		before.goroutines, most.goroutines, after.goroutines, before.rss, most.rss, after.rss, before.heap, most.heap, after.heap)
	if after.inFlight > 0 || after.own > 0 || after.goroutines > limit.goroutines || after.rss > limit.rss {
		t.Errorf("more is left than 10 %% above the start: %+v, want at most %+v", after, limit)
	}
	n.stop()
	judge(t, up, seen, events(t, e.kafka))
}

// load keeps the streams running for d and returns the largest sizes seen.
func load(t *testing.T, n *node, seen *tally, d time.Duration) (most size) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: streams, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			for ctx.Err() == nil {
				seen.stream(n.url, client)
			}
		})
	}
	for ctx.Err() == nil {
		s := n.size()
		most = size{goroutines: max(most.goroutines, s.goroutines), rss: max(most.rss, s.rss), heap: max(most.heap, s.heap)}
		time.Sleep(250 * time.Millisecond)
	}
	wg.Wait()
	return most
}

// stream is one client's request: most read on, some slowly, some go away.
func (c *tally) stream(url string, client *http.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leaves, slow, stuck := false, time.Duration(0), false
	switch n := rand.IntN(100); {
	case n < 15:
		leaves = true
		time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, cancel)
	case n < 30:
		slow = time.Duration(5+rand.IntN(40)) * time.Millisecond
	case n < 34:
		stuck = true
	}
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		c.fault("%v", err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		if !leaves {
			c.fault("no answer: %v", err)
		}
		c.end("left before the answer")
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.end(fmt.Sprint(resp.StatusCode))
		time.Sleep(200 * time.Millisecond) // as clients do before they ask again
		return
	}
	if stuck {
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
		c.end("left unread")
		return
	}
	c.follow(resp, leaves, slow)
}

// follow reads a stream to its end and holds it to what a client may rely on.
func (c *tally) follow(resp *http.Response, leaves bool, slow time.Duration) {
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	span, chunks, finish, failed, done := "", 0, "", false, false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if failed || done {
			c.fault("more behind the end: %.200s", data)
		}
		if done = data == "[DONE]"; done {
			continue
		}
		text, reason, bad := seen(data)
		failed = bad
		finish += reason
		for part := range strings.SplitSeq(text, ";") {
			id, number, ok := strings.Cut(part, ":")
			if !ok {
				continue
			}
			if (span != "" && id != span) || number != fmt.Sprint(chunks) {
				c.fault("chunk %s of call %s, want chunk %d of %s", number, id, chunks, span)
			}
			span = id
			chunks++
		}
		time.Sleep(slow)
	}
	switch {
	case done && finish == "stop" && !failed:
		c.end("whole")
		c.mu.Lock()
		c.whole[span] = chunks
		c.mu.Unlock()
	case failed && !done && finish == "":
		c.end("error event")
	case leaves:
		c.end("left within the stream")
	default:
		c.fault("a stream ended with done %v, finish %q, error %v: %v", done, finish, failed, lines.Err())
	}
}

// judge compares what clients, upstream and log say.
func judge(t *testing.T, up *hostile, clients *tally, events map[string][]*attempt.Event) {
	t.Helper()
	up.mu.Lock()
	defer up.mu.Unlock()
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, span := range up.twice {
		fault("call %q came twice or without a span", span)
	}
	for span, chunks := range clients.whole {
		if e := up.calls[span]; e == nil || !e.finished || e.chunks != chunks {
			fault("a stream of %d chunks ended as success, and the upstream says %+v", chunks, e)
		}
		if e := events[span]; len(e) != 1 || e[0].Outcome != attempt.Completed {
			fault("a stream ended as success, and the log says %+v", e)
		}
	}
	for span, e := range up.calls {
		rows := events[span]
		if len(rows) != 1 {
			fault("%d events of a call that was %q", len(rows), e.how)
			continue
		}
		if rows[0].Outcome == attempt.Completed && !e.finished {
			fault("a call that was %q is completed in the log: %+v", e.how, e)
		}
	}
	outcomes, unseen := map[attempt.Outcome]int{}, 0
	for span, rows := range events {
		outcomes[rows[0].Outcome]++
		if up.calls[span] != nil {
			continue
		}
		unseen++ // it never left, or was given up before the upstream had read it
		if o := rows[0].Outcome; o != attempt.Canceled && o != attempt.NetworkError && o != attempt.UpstreamTimeout {
			fault("an event %s without a call", o)
		}
	}
	faults = append(faults, clients.faults...)
	for _, f := range faults[:min(len(faults), 20)] {
		t.Error(f)
	}
	how := map[string]int{}
	for _, e := range up.calls {
		how[e.how]++
	}
	t.Logf("%d upstream calls, %d events (%d of calls that the upstream did not get to read), %d faults", len(up.calls), len(events), unseen, len(faults))
	t.Logf("outcomes %v", outcomes)
	t.Logf("clients saw %v", clients.ends)
	t.Logf("the upstream was %v", how)
	if clients.ends["whole"] == 0 || clients.ends["error event"] == 0 || len(how) < len(habits) {
		t.Errorf("the soak did not meet everything: %v", slices.Sorted(maps.Keys(how)))
	}
}

// events reads the whole log, by span.
func events(t *testing.T, cfg kafkax.Config) map[string][]*attempt.Event {
	t.Helper()
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	out := map[string][]*attempt.Event{}
	for p := range partitions {
		first, next, err := client.Bounds(t.Context(), topic.Attempts, p)
		if err != nil {
			t.Fatal(err)
		}
		f := client.NewFetcher(topic.Attempts, p, first)
		for first < next {
			records, err := f.Fetch(t.Context(), 10_000)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				first = r.Offset + 1
				e, err := attempt.Decode(r.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[e.SpanID] = append(out[e.SpanID], &attempt.Event{SpanID: e.SpanID, Provider: e.Provider, Outcome: e.Outcome, StatusCode: e.StatusCode})
			}
		}
		f.Close()
	}
	return out
}

func resources(base string) string {
	var b strings.Builder
	mappings := ""
	for i := range 4 {
		fmt.Fprintf(&b, "kind: provider\nid: h%d\nprotocol: openai\nbase_url: %s/v1\nallow_private: true\ntrace: true\ntimeouts: {first_output: 1500ms, idle: 1s}\ncooldown: {base: 100ms, max: 500ms}\ncredentials:\n  - {id: k, secret: env:SOAK_SECRET}\n---\n", i, base)
		mappings += fmt.Sprintf("  - {provider: h%d, upstream: up, price: {input: 1, output: 2}}\n", i)
	}
	sum := sha256.Sum256([]byte(token))
	fmt.Fprintf(&b, "kind: model\nid: m\noutput: [text]\nmappings:\n%s---\nkind: organization\nid: acme\nworkload: api\n---\nkind: project\nid: web\norganization: acme\nmode: platform\nrouting: {thresholds: {exploration_rate: 0.5}, sticky: {enabled: false}}\n---\nkind: api_key\nid: web-1\nproject: web\nhash: sha256:%s\n",
		mappings, hex.EncodeToString(sum[:]))
	return b.String()
}
