package openai

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

const usageToo = `,"stream":true,"stream_options":{"include_usage":true}`

func chunkJSON(delta, finish string) string {
	return strings.Replace(upstream.Chunk(delta, finish), "upstream-model", "catalogue/model", 1)
}

func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func TestStreamRelay(t *testing.T) {
	t.Parallel()
	role, a, b, finish := chunkJSON(`{"role":"assistant","content":""}`, ""), chunkJSON(`{"content":"a"}`, ""), chunkJSON(`{"content":"b"}`, ""), chunkJSON(`{}`, "stop")
	usage := `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"catalogue/model","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`
	reported := llm.Usage{InputTokens: 5, OutputTokens: 2, Source: "reported"}
	for _, tc := range []struct {
		name, script, extra, want string
		usage                     llm.Usage
		spliceInto                string
	}{
		{"usage not asked", `200 sse role text:a text:b finish:stop usage:5,2 done`, streaming, events(role, a, b, finish, "[DONE]"), reported, "finish_reason\":\"stop"},
		{"usage asked", `200 sse role text:a text:b finish:stop usage:5,2 done`, usageToo, events(role, a, b, finish, usage, "[DONE]"), reported, "prompt_tokens"},
		{"no [DONE]", `200 sse role text:a text:b finish:stop usage:5,2`, streaming, events(role, a, b, finish, "[DONE]"), reported, "stop"},
		{"reset behind the finish", `200 sse role text:a text:b finish:stop rst`, streaming, events(role, a, b, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
		{"cut behind the finish", `200 sse role text:a text:b finish:stop usage:5,2 fin`, streaming, events(role, a, b, finish, "[DONE]"), reported, "stop"},
		{"error event behind the finish", `200 sse role text:a text:b finish:stop chunk:"{\"error\":{}}" hold`, streaming, events(role, a, b, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
		{"[DONE] and then nothing", `200 sse role text:a text:b finish:stop usage:5,2 done hold`, streaming, events(role, a, b, finish, "[DONE]"), reported, "stop"},
		{"[DONE] without its line end", `200 sse role text:a text:b finish:stop body:"data: [DONE]" fin`, streaming, events(role, a, b, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
		{"wrong content type", `200 h:"Content-Type: application/json" sse role text:a text:b finish:stop done`, streaming, events(role, a, b, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
		{"gzip", `200 gzip sse role text:a text:b finish:stop usage:5,2 done`, streaming, events(role, a, b, finish, "[DONE]"), reported, "stop"},
		{"byte by byte", `200 drip:10us sse role text:a text:b finish:stop done`, streaming, events(role, a, b, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
		{"only a finish", `200 sse role finish:stop done`, streaming, events(role, finish, "[DONE]"), llm.Usage{Source: "missing"}, "stop"},
	} {
		up := upstream.New(t, tc.script)
		adapter := newAdapter(t)
		call := newCall(t, up.URL, tc.extra)
		start := time.Now()
		r := relay(t, adapter, context.Background(), call)
		if r.err != nil || r.text != tc.want {
			t.Errorf("%s: %v\n got %q\nwant %q", tc.name, r.err, r.text, tc.want)
			continue
		}
		if r.result.Usage != tc.usage || r.result.FinishReason != "stop" || r.result.Status != 200 {
			t.Errorf("%s: %+v", tc.name, r.result)
		}
		if len(r.splices) != 1 || !strings.Contains(r.splices[0], tc.spliceInto) {
			t.Errorf("%s: spliced into %q", tc.name, r.splices)
		}
		if strings.Contains(tc.script, "text:") != (call.Timing.FirstOutput > 0) || r.result.Output != (call.Timing.FirstOutput > 0) {
			t.Errorf("%s: %+v", tc.name, call.Timing)
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("%s: took %v", tc.name, took)
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
}

func TestStreamCuts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		class        attempt.Outcome
		status       int
		shown        string // contents that had been relayed
	}{
		{"closed with nothing", `200 sse`, attempt.UpstreamError, 200, ""},
		{"cut with nothing", `200 sse fin`, attempt.NetworkError, 200, ""},
		{"lifecycle and then death", `200 sse role body:": comment\n\n" role fin`, attempt.NetworkError, 200, ""},
		{"lifecycle and a clean end", `200 sse role`, attempt.NetworkError, 200, ""},
		{"error as the first event", `200 sse chunk:"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\",\"code\":529}}"`, attempt.UpstreamError, 529, ""},
		{"error behind lifecycle", `200 sse role body:"event: error\ndata: {\"error\":{\"code\":429,\"message\":\"x\"}}\n\n" hold`, attempt.UpstreamError, 429, ""},
		{"error event of no JSON object", `200 sse body:"event: error\ndata: 1\n\n"`, attempt.UpstreamError, 500, ""},
		{"content filter as the first event", "200 sse chunk:`" + filterBody + "`", attempt.ContentFilter, 400, ""},
		{"JSON", `200 json:"{\"choices\":[{\"message\":{}}]}"`, attempt.UpstreamError, 200, ""},
		{"[DONE] alone", `200 sse done`, attempt.UpstreamError, 200, ""},
		{"[DONE] without finish", `200 sse role text:a done`, attempt.UpstreamError, 200, "a"},
		{"reset after chunks", `200 sse role text:a text:b text:c text:d rst`, attempt.NetworkError, 200, "abcd"},
		{"cut after chunks", `200 sse role text:a text:b fin`, attempt.NetworkError, 200, "ab"},
		{"clean end after chunks", `200 sse role text:a text:b`, attempt.NetworkError, 200, "ab"},
		{"cut inside a chunk", `200 sse role text:a body:"data: {\"choices\":[{\"de" fin`, attempt.NetworkError, 200, "a"},
		{"clean end inside a chunk", `200 sse role text:a body:"data: {\"choices\":[{\"de"`, attempt.NetworkError, 200, "a"},
		{"malformed chunk", `200 sse role text:a chunk:"{\"choices\":[" text:b finish:stop done`, attempt.UpstreamError, 200, "a"},
		{"error event and an open silent socket", `200 sse role text:a chunk:"{\"error\":{\"message\":\"x\"}}" hold`, attempt.UpstreamError, 500, "a"},
		{"finish_reason error", `200 sse role text:a finish:error done`, attempt.UpstreamError, 500, "a"},
		{"one of two choices unfinished, [DONE]", `200 sse text:a chunk:"{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}" finish:stop done`, attempt.NetworkError, 200, "ax"},
		{"one of two choices unfinished, cut", `200 sse text:a chunk:"{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}" finish:stop fin`, attempt.NetworkError, 200, "ax"},
		{"an event above 1 MiB", `200 sse text:a body:"data: " repeat:1048577,x`, attempt.UpstreamError, 200, "a"},
	} {
		up := upstream.New(t, tc.script)
		adapter := newAdapter(t)
		r := relay(t, adapter, context.Background(), newCall(t, up.URL, streaming))
		if r.err == nil || r.err.Class != tc.class || r.err.Status != tc.status {
			t.Errorf("%s: %+v, want %s %d", tc.name, r.err, tc.class, tc.status)
		}
		if contents(r.text) != tc.shown || strings.Contains(r.text, "[DONE]") || strings.Contains(r.text, `"error"`) {
			t.Errorf("%s: shown %q", tc.name, r.text)
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
}

func TestStreamTimeouts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		set          func(*provider.Timeouts)
		class        attempt.Outcome
		message      string
	}{
		{"never answers", `hold`, func(l *provider.Timeouts) { l.FirstOutput = 60 * time.Millisecond }, attempt.UpstreamTimeout, "no output within 60ms"},
		{"headers and then silence", `200 sse hold`, func(l *provider.Timeouts) { l.FirstOutput = 60 * time.Millisecond }, attempt.UpstreamTimeout, "no output within 60ms"},
		{"lifecycle restarts nothing", `200 sse role pause:40ms role pause:40ms body:": c\n\n" pause:40ms role pause:40ms role hold`, func(l *provider.Timeouts) { l.FirstOutput = 100 * time.Millisecond }, attempt.UpstreamTimeout, "no output within 100ms"},
		{"stall", `200 sse role text:a hold`, func(l *provider.Timeouts) { l.Idle = 60 * time.Millisecond }, attempt.UpstreamTimeout, "nothing more for 60ms"},
		{"comments restart nothing", `200 sse role text:a pause:40ms body:": c\n\n" pause:40ms body:": c\n\n" pause:40ms role hold`, func(l *provider.Timeouts) { l.Idle = 90 * time.Millisecond }, attempt.UpstreamTimeout, "nothing more for 90ms"},
		{"total", `200 sse text:a pause:50ms text:b pause:50ms text:c pause:50ms text:d pause:50ms text:e hold`, func(l *provider.Timeouts) { l.Total = 120 * time.Millisecond }, attempt.UpstreamTimeout, "not finished within 120ms"},
	} {
		up := upstream.New(t, tc.script)
		adapter := newAdapter(t)
		call := newCall(t, up.URL, streaming)
		tc.set(&call.Timeouts)
		start := time.Now()
		r := relay(t, adapter, context.Background(), call)
		if r.err == nil || r.err.Class != tc.class || r.err.Message != tc.message {
			t.Errorf("%s: %+v", tc.name, r.err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: took %v", tc.name, took)
		}
		gone(t, up, tc.name)
		adapter.client.Transports.CloseIdle()
	}
}

// gone waits until the upstream has seen that nobody listens any more.
func gone(t *testing.T, up *upstream.Server, name string) {
	t.Helper()
	for i := 0; up.Gone() == 0; i++ {
		if i == 100 {
			t.Fatalf("%s: the upstream was not let go within a second", name)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Outputs that come slower than the reader of the stream takes them do not run into the idle limit, and
// a slow reader's time is not the upstream's.
func TestIdleCountsOnlyWaiting(t *testing.T) {
	up := upstream.New(t, `200 sse text:a pause:50ms text:b pause:50ms text:c finish:stop done`)
	call := newCall(t, up.URL, streaming)
	call.Timeouts.Idle = 90 * time.Millisecond
	s, failure := newAdapter(t).Stream(context.Background(), call)
	if failure != nil {
		t.Fatal(failure)
	}
	defer s.Close()
	for {
		_, err := s.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestStreamWaitsForTheTail(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, `200 sse text:a finish:stop hold`)
	call := newCall(t, up.URL, streaming)
	call.Timeouts.Idle, call.Timeouts.Total = 50*time.Millisecond, 20*time.Second
	start := time.Now()
	r := relay(t, newAdapter(t), context.Background(), call)
	if took := time.Since(start); r.err != nil || !r.done() || took < 4900*time.Millisecond || took > 6*time.Second {
		t.Fatalf("%v %q after %v", r.err, r.text, took)
	}
}

func TestStreamCanceled(t *testing.T) {
	t.Parallel()
	for _, script := range []string{`hold`, `200 sse role hold`, `200 sse role text:a hold`} {
		up := upstream.New(t, script)
		adapter := newAdapter(t)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { // not before the upstream has the call, or there is nothing to let go
			for i := 0; len(up.Calls()) == 0 && i < 500; i++ {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(50 * time.Millisecond)
			cancel()
		}()
		r := relay(t, adapter, ctx, newCall(t, up.URL, streaming))
		if r.err == nil || r.err.Class != attempt.Canceled {
			t.Errorf("%s: %+v", script, r.err)
		}
		gone(t, up, script)
		adapter.client.Transports.CloseIdle()
	}
}

func TestStreamConnectionIsUsedAgain(t *testing.T) {
	up := upstream.New(t, `200 sse text:a finish:stop done`, `200 sse text:a finish:stop done pause:20ms`, `200 sse text:a finish:stop done`)
	adapter := newAdapter(t)
	for i := range 3 {
		if r := relay(t, adapter, context.Background(), newCall(t, up.URL, streaming)); r.err != nil {
			t.Fatal(i, r.err)
		}
		time.Sleep(100 * time.Millisecond) // the drain
	}
	for _, call := range up.Calls() {
		if call.Connection != 1 {
			t.Fatalf("connection %d", call.Connection)
		}
	}
}

func TestUnchangedBytesStay(t *testing.T) {
	raw := ": note\n\nid: 7\ndata:{\"choices\":[{\"delta\":{\"content\":\"é\\u00e9\"},\"index\":0}], \"x\" : 1.0}\r\n\r\n" +
		"data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"b\"}}]}\n\n" +
		": keep-alive\n\n" +
		"data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: [DONE]\n\n"
	up := upstream.New(t, fmt.Sprintf("200 sse body:%q", raw))
	r := relay(t, newAdapter(t), context.Background(), newCall(t, up.URL, usageToo))
	if r.err != nil || r.text != raw {
		t.Fatalf("%v\n got %q\nwant %q", r.err, r.text, raw)
	}
}

func TestChangedEvents(t *testing.T) {
	for _, tc := range []struct{ in, extra, want string }{
		// usage nobody asked for goes, its event stays where it says something else
		{`{"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":null}`, streaming, `{"model":"catalogue/model","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`},
		{`{"usage":{"prompt_tokens":1,"completion_tokens":1},"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, streaming, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`},
		{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":null}`, usageToo, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":null}`},
		// a gateway behind the gateway
		{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"metadata":null,"turnout":{"x":1}}`, streaming, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`},
		{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"metadata":{"x":1}}`, streaming, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"metadata":{"x":1}}`},
	} {
		up := upstream.New(t, fmt.Sprintf("200 sse chunk:%q done", tc.in))
		adapter := newAdapter(t)
		r := relay(t, adapter, context.Background(), newCall(t, up.URL, tc.extra))
		if want := events(tc.want, "[DONE]"); r.err != nil || r.text != want {
			t.Errorf("%v\n got %q\nwant %q", r.err, r.text, want)
		}
		if own := strings.Contains(tc.want, "metadata"); len(r.chunks) > 0 && r.chunks[0].OwnMetadata != own {
			t.Errorf("%s: own metadata %v", tc.in, !own)
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
	// several data lines become one where something must change
	up := upstream.New(t, fmt.Sprintf("200 sse body:%q done", "event: e\ndata: {\"model\":\"m\",\ndata: \"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"))
	r := relay(t, newAdapter(t), context.Background(), newCall(t, up.URL, streaming))
	if want := "event: e\ndata: {\"model\":\"catalogue/model\", \"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"; r.text != want {
		t.Errorf("%v\n got %q\nwant %q", r.err, r.text, want)
	}
}

func TestUsageCountsOnce(t *testing.T) {
	chunk := func(usage string) string {
		return fmt.Sprintf(" chunk:%q", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":`+usage+`}`)
	}
	for _, tc := range []struct {
		name, usages string
		want         llm.Usage
	}{
		{"in every chunk", chunk(`{"prompt_tokens":5,"completion_tokens":1}`) + chunk(`{"prompt_tokens":5,"completion_tokens":2}`), llm.Usage{InputTokens: 5, OutputTokens: 2, Source: "reported"}},
		{"twice", chunk(`{"prompt_tokens":5,"completion_tokens":1}`) + ` usage:6,7`, llm.Usage{InputTokens: 6, OutputTokens: 7, Source: "reported"}},
		{"null", chunk(`null`), llm.Usage{Source: "missing"}},
		{"negative", ` usage:-5,1`, llm.Usage{Source: "missing", Flag: "usage_negative"}},
		{"absurd", ` usage:20001,1`, llm.Usage{Source: "missing", Flag: "usage_absurd"}},
		{"refused behind a good one", ` usage:5,1 usage:-5,1`, llm.Usage{InputTokens: 5, OutputTokens: 1, Source: "reported", Flag: "usage_negative"}},
		{"zero", ` usage:0,0`, llm.Usage{Source: "reported"}},
		{"a string", chunk(`"x"`), llm.Usage{Source: "missing", Flag: "usage_not_an_object"}},
	} {
		up := upstream.New(t, `200 sse text:a`+tc.usages+` finish:stop done`)
		adapter := newAdapter(t)
		call := newCall(t, up.URL, streaming)
		call.ContextLimit = 10000
		r := relay(t, adapter, context.Background(), call)
		if r.err != nil || r.result.Usage != tc.want || strings.Contains(r.text, "usage") {
			t.Errorf("%s: %v %+v\n%s", tc.name, r.err, r.result.Usage, r.text)
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
}

func TestTwoChoicesOneAfterTheOther(t *testing.T) {
	one := func(i int, delta, finish string) string {
		return fmt.Sprintf(" chunk:%q", fmt.Sprintf(`{"choices":[{"index":%d,"delta":%s,"finish_reason":%s}]}`, i, delta, finish))
	}
	for _, gap := range []string{``, ` pause:100ms`} {
		for _, second := range []string{one(1, `{"content":"b"}`, `null`) + one(1, `{}`, `"stop"`), one(1, `{"content":"b"}`, `"stop"`)} {
			up := upstream.New(t, `200 sse`+one(0, `{"content":"a"}`, `null`)+one(0, `{}`, `"length"`)+gap+second+` done`)
			r := relay(t, newAdapter(t), context.Background(), newCall(t, up.URL, streaming+`,"n":2`))
			if r.err != nil || !r.done() || r.result.FinishReason != "length" || len(r.splices) != 1 || !strings.Contains(r.splices[0], `"index":1`) {
				t.Fatalf("%v %+v %q", r.err, r.result, r.splices)
			}
			for i, c := range r.chunks {
				if want := i == len(r.chunks)-2; c.Finish != want {
					t.Errorf("chunk %d: finish %v", i, c.Finish)
				}
			}
		}
	}
}

func TestCommittedBeyond1MiB(t *testing.T) {
	up := upstream.New(t, `200 sse repeat:13000,"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: some comment\n\n" pause:50ms fin`)
	s, failure := newAdapter(t).Stream(context.Background(), newCall(t, up.URL, streaming))
	if failure != nil {
		t.Fatal(failure)
	}
	defer s.Close()
	c, err := s.Next()
	if err != nil || len(c.Data) <= 1<<20 || len(c.Data) > 1<<20+200 || c.Output {
		t.Fatalf("%d bytes, %v", len(c.Data), err)
	}
}

// The metadata tells the cost, so its chunk comes when usage is known; but a last chunk does not wait
// for an upstream that takes its time.
func TestMetadataKnowsTheUsage(t *testing.T) {
	reported := llm.Usage{InputTokens: 5, OutputTokens: 2, Source: "reported"}
	asWell := fmt.Sprintf(" chunk:%q", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`)
	for _, tc := range []struct {
		name, script, extra string
		known               llm.Usage // when the place for metadata is given out
		into                string
	}{
		{"at once", `200 sse text:a finish:stop usage:5,2 done`, streaming, reported, "finish_reason"},
		{"shortly after", `200 sse text:a finish:stop pause:10ms usage:5,2 pause:10ms done`, streaming, reported, "finish_reason"},
		{"asked", `200 sse text:a finish:stop pause:10ms usage:5,2 pause:10ms done`, usageToo, reported, "completion_tokens"},
		{"asked and late", `200 sse text:a finish:stop pause:200ms usage:5,2 done`, usageToo, reported, "completion_tokens"},
		{"late", `200 sse text:a finish:stop pause:200ms usage:5,2 done`, streaming, llm.Usage{Source: "missing"}, "finish_reason"},
		{"asked and never", `200 sse text:a finish:stop done`, usageToo, llm.Usage{Source: "missing"}, "finish_reason"},
		{"asked and never, cut", `200 sse text:a finish:stop rst`, usageToo, llm.Usage{Source: "missing"}, "finish_reason"},
		{"before the finish", `200 sse` + asWell + ` finish:stop done`, usageToo, reported, "finish_reason"},
		{"before the finish, unasked", `200 sse` + asWell + ` finish:stop pause:200ms done`, streaming, reported, "finish_reason"},
	} {
		up := upstream.New(t, tc.script)
		adapter := newAdapter(t)
		s, failure := adapter.Stream(context.Background(), newCall(t, up.URL, tc.extra))
		if failure != nil {
			t.Fatal(failure)
		}
		var into string
		var finished, ended time.Time
		for {
			c, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Finish {
				finished = time.Now()
			}
			if c.Done {
				ended = time.Now()
			}
			if c.SpliceAt > 0 {
				if into != "" {
					t.Errorf("%s: spliced twice", tc.name)
				}
				into = spliced(t, c.Data, c.SpliceAt)
				if got := s.Result().Usage; got != tc.known {
					t.Errorf("%s: known %+v", tc.name, got)
				}
			}
		}
		s.Close()
		if !strings.Contains(into, tc.into) {
			t.Errorf("%s: spliced into %q", tc.name, into)
		}
		if strings.Contains(tc.script, "200ms") && ended.Sub(finished) < 80*time.Millisecond {
			t.Errorf("%s: the last chunk waited", tc.name)
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
}

func TestClosedWhileWaitingForTheUsage(t *testing.T) {
	up := upstream.New(t, `200 sse text:a finish:stop hold`)
	s, failure := newAdapter(t).Stream(context.Background(), newCall(t, up.URL, streaming))
	if failure != nil {
		t.Fatal(failure)
	}
	for {
		c, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if c.Finish {
			break
		}
	}
	s.Close()
	s.Close()
	gone(t, up, "closed")
}
