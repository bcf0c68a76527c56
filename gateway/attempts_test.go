package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// trail says which providers and keys were called, in order.
func trail(u *upstreams) string {
	var out []string
	for _, c := range u.called("") {
		key, _, _ := strings.Cut(strings.TrimPrefix(c.secret, "sk-"), "-")
		out = append(out, key)
	}
	return strings.Join(out, " ")
}

// inTurn answers the first call by the first script, and so on; the last one stays.
func inTurn(scripts ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := scripts[min(n, len(scripts)-1)]
		n++
		mu.Unlock()
		h(w, r)
	}
}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	c, _, _ := w.(http.Hijacker).Hijack()
	_ = c.Close()
}

func TestRetryRules(t *testing.T) {
	broker := kafkatest.New(t, 3)
	ok := answer("fine")
	two := []providerSpec{{id: "alpha"}, {id: "beta", price: "{input: 3, output: 6}"}}
	three := append(two[:2:2], providerSpec{id: "gamma", price: "{input: 4, output: 8}"}, providerSpec{id: "delta", price: "{input: 5, output: 10}"})
	for name, c := range map[string]struct {
		providers []providerSpec
		scripts   map[string]http.HandlerFunc
		body      string
		header    []string
		status    int
		trail     string // who was called
		code      string
		retry     string // Retry-After
		took      time.Duration
	}{
		"another key first": {
			providers: []providerSpec{{id: "alpha", keys: 2}, two[1]}, scripts: map[string]http.HandlerFunc{"alpha": inTurn(status(500, "x"), ok)},
			status: 200, trail: "alpha_1 alpha_0"},
		"keys do not use up retries": {
			providers: []providerSpec{{id: "alpha", keys: 4}, two[1]}, scripts: map[string]http.HandlerFunc{"alpha": status(500, "x")},
			status: 200, trail: "alpha_1 alpha_2 alpha_3 alpha_0 beta_0"},
		"two retries at most": {
			providers: three, scripts: map[string]http.HandlerFunc{"alpha": status(500, "x"), "beta": status(503, "x"), "gamma": hangUp},
			status: 502, code: "upstream_error", trail: "alpha_0 beta_0 gamma_0"},
		"a client error is final": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(400, "temperature must be at most 2")},
			status: 400, trail: "alpha_0"},
		"an invalid key is the host's trouble": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(401, "bad key")}, status: 200, trail: "alpha_0 beta_0"},
		"explicit provider: its other keys only": {
			providers: []providerSpec{{id: "alpha", keys: 2}, two[1]}, scripts: map[string]http.HandlerFunc{"alpha": status(404, "x")},
			body: strings.Replace(chatBody, `"m"`, `"alpha/m"`, 1), status: 502, code: "upstream_error", trail: "alpha_1 alpha_0"},
		"no fallback": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(404, "x")}, header: []string{"X-No-Fallback", "true"},
			status: 502, trail: "alpha_0"},
		"no fallback needs the value true": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(404, "x")}, header: []string{"X-No-Fallback", "1"},
			status: 200, trail: "alpha_0 beta_0"},
		"a sole provider's key again after 1 s and 2 s": {
			providers: two[:1], scripts: map[string]http.HandlerFunc{"alpha": inTurn(status(500, "x"), hangUp, ok)},
			status: 200, trail: "alpha_0 alpha_0 alpha_0", took: 3 * time.Second},
		"a sole provider's Retry-After": {
			providers: two[:1], scripts: map[string]http.HandlerFunc{"alpha": inTurn(status(503, "x", "Retry-After", "2"), ok)},
			status: 200, trail: "alpha_0 alpha_0", took: 2 * time.Second},
		"a Retry-After beyond patience": {
			providers: two[:1], scripts: map[string]http.HandlerFunc{"alpha": status(503, "x", "Retry-After", "11")}, status: 502, trail: "alpha_0"},
		"a sole provider's 404 is not tried again": {
			providers: two[:1], scripts: map[string]http.HandlerFunc{"alpha": status(404, "x")}, status: 502, trail: "alpha_0"},
		"a session stays with its provider": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": inTurn(status(500, "x"), ok)}, header: []string{"X-Session-Id", "s"},
			status: 200, trail: "alpha_0 alpha_0", took: time.Second},
		"every provider limits": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(429, "x", "Retry-After", "30"), "beta": status(429, "x", "Retry-After", "7")},
			status: 429, code: "all_providers_limited", retry: "7", trail: "alpha_0 beta_0"},
		"a limit without a time": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(429, "x"), "beta": status(429, "x")},
			status: 429, code: "all_providers_limited", retry: "5", trail: "alpha_0 beta_0"},
		"a 429 and a 500": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": status(429, "x"), "beta": status(500, "x")},
			status: 502, code: "upstream_error", trail: "alpha_0 beta_0"},
		"content filter": {
			providers: two, scripts: map[string]http.HandlerFunc{"alpha": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				fmt.Fprint(w, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter"}}`)
			}}, status: 200, trail: "alpha_0"},
		"a prompt too long goes to a larger context": {
			providers: []providerSpec{{id: "alpha", mapping: ", context: 5000"}, {id: "beta", price: "{input: 3, output: 6}", mapping: ", context: 5000"}, {id: "gamma", price: "{input: 4, output: 8}", mapping: ", context: 9000"}},
			scripts: map[string]http.HandlerFunc{"alpha": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				fmt.Fprint(w, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)
			}}, status: 200, trail: "alpha_0 gamma_0"},
		"a prompt too long for all goes to the client": {
			providers: []providerSpec{{id: "alpha", mapping: ", context: 5000"}}, scripts: map[string]http.HandlerFunc{"alpha": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(400)
				fmt.Fprint(w, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)
			}}, status: 400, code: "context_length_exceeded", trail: "alpha_0"},
		"first byte too late": {
			providers: []providerSpec{{id: "alpha", extra: "timeouts: {first_byte: 100ms}"}, two[1]}, scripts: map[string]http.HandlerFunc{"alpha": silence},
			status: 200, trail: "alpha_0 beta_0", took: 100 * time.Millisecond},
		"every one too late": {
			providers: []providerSpec{{id: "alpha", extra: "timeouts: {first_byte: 100ms}"}}, scripts: map[string]http.HandlerFunc{"alpha": silence},
			header: []string{"X-No-Fallback", "true"}, status: 504, code: "timeout", trail: "alpha_0 alpha_0 alpha_0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstreams(t)
			for p, h := range c.scripts {
				u.script(p, h)
			}
			n := start(t, resources(u.URL, noExploration, c.providers...), func(cfg *Config) { cfg.Kafka = broker }).ready()
			if c.body == "" {
				c.body = chatBody
			}
			began := time.Now()
			r := n.chat(c.body, c.header...)
			if took := time.Since(began); took < c.took {
				t.Errorf("took %v, want at least %v", took, c.took)
			}
			if r.status != c.status || (c.code != "" && r.at("error.code") != c.code) || r.header.Get("Retry-After") != c.retry {
				t.Errorf("%d %v %s", r.status, r.header, r.body)
			}
			if got := trail(u); got != c.trail {
				t.Errorf("called %q, want %q", got, c.trail)
			}
			list, _ := r.at("metadata.routing").([]any)
			if len(list) != len(u.called("")) {
				t.Errorf("metadata names %d attempts: %s", len(list), r.body)
			}
			if c.code == "" && c.status == 400 && !strings.Contains(r.body, "temperature must be at most 2") {
				t.Errorf("the client's mistake is not told: %s", r.body)
			}
			if name == "content filter" && (r.at("choices.0.finish_reason") != "content_filter" || r.at("choices.0.message.content") != "") {
				t.Errorf("%s", r.body)
			}
			for _, secret := range []string{"sk-", "up-alpha"} {
				if strings.Contains(r.body, secret) {
					t.Errorf("the answer holds %q: %s", secret, r.body)
				}
			}
			if logs := n.logs.String(); strings.Contains(logs, "sk-") || strings.Contains(logs, "Hello world") {
				t.Errorf("the log holds a secret or a prompt: %s", logs)
			}
		})
	}
}

// silence accepts and says nothing until the caller goes.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// A stream that breaks after output ends with an error and nothing that looks like an end; before
// output the next provider is tried.
func TestBrokenStreams(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	// By price alone, and with failures that count for little, alpha stays the first choice throughout.
	const forgiving = "{weights: {uptime: 0, throughput: 0, latency: 0}, thresholds: {exploration_rate: 0, uptime_min_attempts: 10000}, sticky: {enabled: false}}"
	n := start(t, resources(u.URL, forgiving, providerSpec{id: "alpha", extra: "timeouts: {idle: 150ms, first_output: 150ms}"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}), nil).ready()
	calls, want := 0, map[string]attempt.Outcome{}
	for name, c := range map[string]struct {
		script  http.HandlerFunc
		whole   bool // the client gets a whole answer, from beta
		outcome attempt.Outcome
		code    string
	}{
		"cut before output":    {script: hangUp, whole: true, outcome: attempt.NetworkError},
		"opened and closed":    {script: func(w http.ResponseWriter, _ *http.Request) { chunks(w, "", "", false) }, whole: true, outcome: attempt.UpstreamError},
		"silent before output": {script: silence, whole: true, outcome: attempt.UpstreamTimeout},
		"error event first":    {script: inBand(""), whole: true, outcome: attempt.UpstreamError},
		"cut after output": {script: func(w http.ResponseWriter, _ *http.Request) {
			chunks(w, "one two", "", false)
			panic(http.ErrAbortHandler)
		}, outcome: attempt.NetworkError, code: "upstream_error"},
		"stalled after output":  {script: func(w http.ResponseWriter, r *http.Request) { chunks(w, "one two", "", false); <-r.Context().Done() }, outcome: attempt.UpstreamTimeout, code: "timeout"},
		"error event after":     {script: inBand("one two"), outcome: attempt.UpstreamError, code: "upstream_error"},
		"done without finish":   {script: func(w http.ResponseWriter, _ *http.Request) { chunks(w, "one two", "", true) }, outcome: attempt.UpstreamError, code: "upstream_error"},
		"finish without [DONE]": {script: func(w http.ResponseWriter, _ *http.Request) { chunks(w, "one two", "stop", false) }, outcome: attempt.Completed},
	} {
		u.script("alpha", c.script)
		r := n.chat(streamBody)
		if r.status != 200 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		good := c.whole || c.outcome == attempt.Completed
		if done := strings.HasSuffix(r.body, "data: [DONE]\n\n"); done != good {
			t.Errorf("%s: [DONE] is %v in %s", name, done, r.body)
		}
		last := strings.TrimPrefix(lastEvent(r.body), "data: ")
		if !good && (reply{body: last}.at("error.code") != c.code || reply{body: last}.at("metadata.routing.0.succeeded") != false) {
			t.Errorf("%s: ends with %s", name, last)
		}
		if c.code == "upstream_error" && !strings.Contains(last, "not the whole answer") {
			t.Errorf("%s: does not say that the answer is not whole: %s", name, last)
		}
		if strings.Contains(r.body, "beta") != c.whole {
			t.Errorf("%s: %s", name, r.body)
		}
		calls++
		if c.whole {
			calls++
		}
		want[r.header.Get("X-Request-Id")] = c.outcome
		n.heal("alpha")
	}
	events := n.events(calls)
	balanced(t, u, events)
	for _, e := range events {
		if e.Provider == "alpha" && e.Outcome != want[e.RequestID] {
			t.Errorf("%s, want %s: %+v", e.Outcome, want[e.RequestID], e)
		}
		if e.Provider == "alpha" {
			delete(want, e.RequestID)
		}
	}
	if len(want) > 0 {
		t.Errorf("no event of alpha for %v", want)
	}
}

func lastEvent(body string) string {
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	return events[len(events)-1]
}

func inBand(before string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		chunks(w, before, "", false)
		fmt.Fprint(w, "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":529}}\n\n")
	}
}

func TestClientLeaves(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("x") == "" {
			chunks(w, "one two", "", false)
		}
		<-r.Context().Done()
	})
	leave := func(body string, wait func(*http.Response)) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "POST", n.url+"/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		before := len(u.called(""))
		go func() {
			eventually(t, "the upstream is called", 5*time.Second, func() bool { return len(u.called("")) > before })
			if wait == nil {
				time.Sleep(20 * time.Millisecond)
				cancel()
			}
		}()
		resp, err := http.DefaultClient.Do(r)
		if wait != nil {
			if err != nil {
				t.Fatal(err)
			}
			wait(resp)
			cancel()
			_ = resp.Body.Close()
		}
		left := time.Now()
		eventually(t, "the upstream call is cancelled within a second", time.Second, func() bool {
			calls := u.called("")
			return len(calls) > before && !calls[len(calls)-1].gone.IsZero()
		})
		_ = left
	}
	leave(streamBody, func(r *http.Response) { // after output
		s := bufio.NewScanner(r.Body)
		for s.Scan() && !strings.Contains(s.Text(), "two") {
		}
	})
	u.script("alpha", silence)
	leave(streamBody, nil) // before output
	leave(chatBody, nil)
	events := n.events(3)
	balanced(t, u, events)
	output := 0
	for _, e := range events {
		if e.Outcome != attempt.Canceled || e.WillRetry || e.StatusCode != 0 && e.TTFTUS == nil {
			t.Errorf("event %+v", e)
		}
		if e.TTFTUS != nil {
			output++
		}
	}
	if output != 1 {
		t.Errorf("%d events with output, want 1", output)
	}
}

func TestHeartbeats(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha", extra: "timeouts: {first_output: 400ms}"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}),
		func(c *Config) { c.HeartbeatAfter, c.HeartbeatEvery = 100*time.Millisecond, 100*time.Millisecond }).ready()
	u.script("alpha", silence)
	r := n.chat(streamBody)
	if beats := strings.Count(r.body, ": waiting"); r.status != 200 || beats < 2 || !strings.HasPrefix(r.body, ":") || !strings.Contains(r.body, "beta") || !strings.HasSuffix(r.body, "[DONE]\n\n") {
		t.Errorf("%d heartbeats: %s", beats, r.body)
	}
	if strings.LastIndex(r.body, ": waiting") > strings.Index(r.body, "data:") {
		t.Errorf("a heartbeat after the first output: %s", r.body)
	}
	u.script("beta", silence)
	n.g.cfg.HeartbeatAfter = 0
	r = n.chat(`{"model":"alpha/m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if last := lastEvent(r.body); r.status != 200 || !strings.Contains(last, `"code":"timeout"`) || strings.Contains(r.body, "[DONE]") {
		t.Errorf("a failure after the status went out: %s", r.body)
	}
}

// Stopping lets streams end, cuts those that take too long, and loses no event.
func TestGracefulStop(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta"}), func(c *Config) { c.ShutdownTimeout = time.Second }).ready()
	release := make(chan struct{})
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		chunks(w, "one", "", false)
		<-release
		chunks(w, "two", "stop", true)
	})
	u.script("beta", func(w http.ResponseWriter, r *http.Request) {
		chunks(w, "one", "", false)
		<-r.Context().Done()
	})
	results := make(chan reply, 2)
	for _, model := range []string{"alpha/m", "beta/m"} {
		go func() { results <- n.chat(strings.Replace(streamBody, `"m"`, `"`+model+`"`, 1)) }()
	}
	eventually(t, "both streams run", 5*time.Second, func() bool { return n.g.api.InFlight() == 2 && len(u.called("")) == 2 })
	stopped := make(chan struct{})
	began := time.Now()
	go func() { n.stop(); close(stopped) }()
	eventually(t, "not ready", time.Second, func() bool { return len(n.g.Ready()) > 0 })
	close(release)
	first := <-results
	if !strings.HasSuffix(first.body, "[DONE]\n\n") || !strings.Contains(first.body, "two") {
		t.Errorf("the stream that could end: %s", first.body)
	}
	second := <-results
	if strings.Contains(second.body, "[DONE]") || !strings.Contains(lastEvent(second.body), "shutting down") {
		t.Errorf("the stream that could not: %s", second.body)
	}
	<-stopped
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping took %v", took)
	}
	events := n.events(2)
	balanced(t, u, events)
	for _, e := range events {
		if want := map[string]attempt.Outcome{"alpha": attempt.Completed, "beta": attempt.Canceled}[e.Provider]; e.Outcome != want {
			t.Errorf("%s: %s, want %s", e.Provider, e.Outcome, want)
		}
	}
}

func TestSessionSticks(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, "{thresholds: {exploration_rate: 1}}", providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 1.1, output: 2}"}, providerSpec{id: "gamma", price: "{input: 1.2, output: 2}"}), nil).ready()
	for range 10 {
		if r := n.chat(chatBody, "X-Session-Id", "s-1"); r.at("metadata.used_provider") != "alpha" || r.at("metadata.reason") != "session-sticky" {
			t.Fatalf("%s", r.body)
		}
	}
	// Another becomes cheaper: the session stays, others go there (or anywhere: they explore).
	doc, err := os.ReadFile(n.file)
	if err != nil {
		t.Fatal(err)
	}
	cheaper := strings.Replace(string(doc), "{input: 1.2, output: 2}", "{input: 0.1, output: 0.1}", 1)
	cheaper = strings.Replace(cheaper, "exploration_rate: 1", "exploration_rate: 0", 1)
	if err := os.WriteFile(n.file, []byte(cheaper), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change counts", 3*time.Second, func() bool { return n.chat(chatBody).at("metadata.used_provider") == "gamma" })
	for range 10 {
		if r := n.chat(chatBody, "X-Session-Id", "s-1"); r.at("metadata.used_provider") != "alpha" {
			t.Fatalf("%s", r.body)
		}
	}
	// Its provider dies: it leaves after a few failures and stays where it went.
	u.script("alpha", status(500, "dead"))
	failures := 0
	for n.chat(chatBody, "X-Session-Id", "s-1").status == 502 {
		if failures++; failures > 2 { // of three attempts each: five in a row make the key cool down
			t.Fatal("the session does not leave a dead provider")
		}
	}
	for range 5 {
		if r := n.chat(chatBody, "X-Session-Id", "s-1"); r.at("metadata.used_provider") != "gamma" || r.at("metadata.reason") != "session-sticky" {
			t.Fatalf("%s", r.body)
		}
	}
	for _, e := range n.events(len(u.called(""))) {
		if strings.Contains(e.SessionHash, "s-1") || (e.Reason == "session-sticky" && len(e.SessionHash) != 32) {
			t.Fatalf("session hash %q", e.SessionHash)
		}
	}
}

// Where auto finds nobody, the client and the log are told of every model's providers why.
func TestARefusalOfAutoNamesThoseOfEveryModel(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"})
	doc += "---\n{kind: model, id: gpt-5.4, mappings: [{provider: alpha, upstream: up, price: {input: 3, output: 3}, capabilities: [vision]}]}\n" +
		"---\n{kind: model, id: gpt-5.4-mini, mappings: [{provider: alpha, upstream: up, price: {input: 1, output: 1}, context: 100}]}\n"
	n := start(t, doc, nil).ready()
	r := n.chat(`{"model":"auto","max_tokens":200,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`)
	const want = `"excluded":[{"provider":"alpha","model":"gpt-5.4","code":"tools"},{"provider":"alpha","model":"gpt-5.4-mini","code":"context_size"}]`
	if r.status != 400 || strings.Count(r.body, want) != 2 { // under metadata and turnout
		t.Errorf("%d %s", r.status, r.body)
	}
	n.read(topic.Requests, 3, 1, func(value []byte) {
		const want = `"considered_total":2,"considered":[{"provider":"alpha","model":"gpt-5.4","excluded_code":"tools"},{"provider":"alpha","model":"gpt-5.4-mini","excluded_code":"context_size"}]`
		if !strings.Contains(string(value), want) {
			t.Errorf("%s", value)
		}
	})
}

func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha", mapping: ", capabilities: []"}), nil).ready()
	n.chat(`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`)
	n.chat(`{"model":"a secret in a model id","messages":[{"role":"user","content":"x"}]}`)
	codes := map[string]string{}
	n.read(topic.Requests, 3, 2, func(value []byte) {
		r := reply{body: string(value)}
		codes[fmt.Sprint(r.at("error_code"))] = string(value)
	})
	if e := codes["no_provider_available"]; !strings.Contains(e, `"excluded_code":"tools"`) || !strings.Contains(e, `"project_id":"web"`) {
		t.Errorf("%s", e)
	}
	if codes["model_not_found"] == "" {
		t.Errorf("%v", codes)
	}
}
