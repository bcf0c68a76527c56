package live

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"turnout/internal/testkit"
)

// quiet keeps chance and habit out of a test that is about the score, and steady also how fast the
// providers happened to answer: on a busy machine that is noise, and the test is about prices.
const (
	quiet   = "{thresholds: {exploration_rate: 0}, sticky: {enabled: false}}"
	byPrice = "weights: {throughput: 0, latency: 0}"
	steady  = "{thresholds: {exploration_rate: 0}, sticky: {enabled: false}, " + byPrice + "}"
)

// alike are three providers that differ in price alone, the cheapest in the middle.
func alike() []host {
	return []host{
		{id: "east", input: "3", output: "6", ttft: 20, rate: 250},
		{id: "north", input: "1", output: "2", ttft: 20, rate: 250},
		{id: "west", input: "2", output: "4", ttft: 20, rate: 250},
	}
}

func TestCheapestWinsWhenAllElseIsEqual(t *testing.T) {
	t.Parallel()
	s := newStack(t, setup{hosts: alike(), routing: quiet}, false)
	n := s.gateway("g")
	n.goes("north", "price-only-no-metrics", ask{}) // nothing is known of anybody
	n.warm(3, ask{stream: true})
	for i := range 20 {
		n.goes("north", "weighted-score", ask{stream: i%2 == 0})
	}
}

// contrasts are three providers of which each is the best in one thing.
func contrasts() []host {
	return []host{
		{id: "quick", input: "3", output: "6", ttft: 100, rate: 4000, answer: 40},
		{id: "cheap", input: "1", output: "2", ttft: 150, rate: 200, answer: 40},
		{id: "prompt", input: "2", output: "4", ttft: 20, rate: 200, answer: 40},
	}
}

func TestStrategiesDoWhatTheySay(t *testing.T) {
	t.Parallel()
	s := newStack(t, setup{hosts: contrasts(), routing: quiet, strategy: "throughput", projects: map[string]string{"plain": quiet}}, false)
	n := s.gateway("g")
	n.warm(3, ask{stream: true})
	field := func(strategy string) map[string]any { return map[string]any{"routing": strategy} }
	for _, c := range []struct {
		says, provider string
		ask            ask
	}{
		{"price", "cheap", ask{project: "plain", body: field("price")}},
		{"throughput", "quick", ask{project: "plain", body: field("throughput")}},
		{"latency of a stream", "prompt", ask{project: "plain", body: field("latency"), stream: true}},
		{"latency of a plain request is uptime alone: the first of equals", "quick", ask{project: "plain", body: field("latency")}},
		{"the project's default strategy", "quick", ask{}},
		{"the field beats the project's", "cheap", ask{body: field("price")}},
		{"auto as a field beats the project's", "cheap", ask{body: field("auto")}},
		{":cheap", "cheap", ask{model: "m:cheap"}},
		{":nitro", "quick", ask{project: "plain", model: "m:nitro"}},
		{":fast", "prompt", ask{project: "plain", model: "m:fast", stream: true}},
		{"a suffix in any case", "quick", ask{project: "plain", model: "m:NiTrO"}},
		{"a suffix beats the field", "quick", ask{model: "m:nitro", body: field("price")}},
	} {
		for range 3 {
			if got := n.send(c.ask); got.Provider != c.provider || got.Reason != "weighted-score" {
				t.Errorf("%s: went to %q (%s, status %d %s), want %s; considered %s", c.says, got.Provider, got.Reason, got.Status, got.Message, c.provider, figures(got.Considered))
			}
		}
	}
	if got := n.send(ask{model: "cheap/m", body: field("price")}); got.Status != 400 {
		t.Errorf("a strategy beside a named provider: status %d, want 400", got.Status)
	}
	n.goes("cheap", "direct-provider-specified", ask{model: "cheap/m:nitro"}) // of its one region
}

// TestASession: a session of 20 turns stays while another provider becomes cheaper, never explores, and
// moves when its provider falls below 85.
func TestASession(t *testing.T) {
	t.Parallel()
	set := setup{
		hosts:   []host{{id: "first", input: "1", output: "2", ttft: 20, rate: 1000}, {id: "second", input: "2", output: "4", ttft: 20, rate: 1000}},
		routing: "{thresholds: {exploration_rate: 1}, retry: {max_retries: 0}, " + byPrice + "}", projects: map[string]string{"calm": "{thresholds: {exploration_rate: 0}, retry: {max_retries: 0}, sticky: {enabled: false}, " + byPrice + "}"},
	}
	s := newStack(t, set, false)
	n := s.gateway("g")
	n.warm(8, ask{project: "calm"})
	explored := 0
	for range 5 {
		if n.send(ask{}).Reason == "random-exploration" {
			explored++
		}
	}
	if explored != 5 {
		t.Fatalf("%d of 5 requests without a session explored; the project says all do", explored)
	}
	turn := func(provider string, i int) {
		n.goes(provider, "session-sticky", ask{session: "s", tokens: 100 * (i + 1), stream: i%2 == 1})
	}
	for i := range 5 {
		turn("first", i)
	}
	s.rewrite(set.change(func(h *host) {
		if h.id == "first" {
			h.input, h.output = "4", "8"
		}
	}), n)
	n.goes("second", "weighted-score", ask{project: "calm"})
	for i := range 15 {
		turn("first", 5+i)
	}

	// One failure in two, never two in a row: uptime falls, and no key cools down. The calls of others
	// bring it down, so that the session never fails itself.
	uptime := 100.0
	for i := 0; uptime >= 85; i++ {
		if i == 40 {
			t.Fatalf("uptime is %.1f after %d failures", uptime, i)
		}
		turn("first", 0)
		s.set("first", `{"error_rate": 1}`)
		if got := n.send(ask{project: "calm", model: "first/m", header: map[string]string{"X-No-Fallback": "true"}}); got.Status != 502 {
			t.Fatalf("status %d of a failing provider", got.Status)
		}
		s.set("first", `{"error_rate": 0}`)
		time.Sleep(settled)
		uptime = uptimeOf(t, n.send(ask{project: "calm"}), "first")
	}
	for i := range 3 {
		turn("second", i)
	}
	// Recovered, the old provider is no longer the session's.
	for i := 0; uptime < 90; i++ {
		if i == 200 {
			t.Fatalf("uptime is %.1f after %d successes", uptime, i)
		}
		n.goes("first", "", ask{project: "calm", model: "first/m", header: map[string]string{"X-No-Fallback": "true"}})
		uptime = uptimeOf(t, n.send(ask{project: "calm"}), "first")
	}
	turn("second", 3)
	// A session that begins now goes where the score says.
	n.goes("second", "session-sticky", ask{session: "another"})
}

func uptimeOf(t *testing.T, a answer, provider string) float64 {
	t.Helper()
	for _, c := range a.Considered {
		if c.Provider == provider && c.Uptime != nil {
			return *c.Uptime
		}
	}
	t.Fatalf("nothing is known of %s's uptime: %s", provider, figures(a.Considered))
	return 0
}

// TestSessionKeys: every header and body field that names a session holds it, in their order.
func TestSessionKeys(t *testing.T) {
	t.Parallel()
	set := setup{
		hosts:    []host{{id: "first", input: "1", output: "2"}, {id: "second", input: "2", output: "4"}},
		routing:  steady,
		projects: map[string]string{"nouser": "{session: {use_user_field: false}, " + steady[1:], "nosession": "{session: {enabled: false}, " + steady[1:]},
	}
	s := newStack(t, set, false)
	n := s.gateway("g")
	header := func(name, id string) ask { return ask{header: map[string]string{name: id}} }
	named := []ask{
		header("X-Session-Id", "h1"), header("X-Session-Affinity", "h2"), header("session_id", "h3"), header("session-id", "h4"),
		header("X-Claude-Code-Session-Id", "h5"), header("X-Opencode-Session", "h6"), header("Thread-Id", "h7"), header("conversation_id", "h8"),
		{body: map[string]any{"session_id": "b1"}}, {body: map[string]any{"prompt_cache_key": "b2"}}, {body: map[string]any{"user": "b3"}},
	}
	for _, a := range named {
		n.goes("first", "session-sticky", a)
	}
	s.rewrite(set.change(func(h *host) {
		if h.id == "first" {
			h.input, h.output = "9", "9"
		}
	}), n)
	n.goes("second", "", ask{})
	for _, a := range named {
		n.goes("first", "session-sticky", a)
	}
	n.goes("second", "", header("X-Client-Request-Id", "h1")) // names a request, not a session
	n.goes("second", "session-sticky", ask{header: map[string]string{"X-Session-Id": "new"}, body: map[string]any{"user": "b3"}})
	n.goes("first", "session-sticky", ask{header: map[string]string{"Thread-Id": "h7", "conversation_id": "other"}})
	for _, project := range []string{"nouser", "nosession"} {
		got := n.goes("second", "", ask{project: project, body: map[string]any{"user": "b3"}})
		if got.Reason == "session-sticky" {
			t.Errorf("%s: user made a session", project)
		}
	}
	n.goes("first", "session-sticky", ask{project: "nouser", header: map[string]string{"X-Session-Id": "h1"}}) // of the organization
	if got := n.goes("second", "", ask{project: "nosession", header: map[string]string{"X-Session-Id": "h1"}}); got.Reason == "session-sticky" {
		t.Error("a project without sessions has one")
	}
}

func TestCodingClientsPayForWhatTheyCache(t *testing.T) {
	t.Parallel()
	s := newStack(t, setup{hosts: []host{
		{id: "caching", input: "1", output: "2", cached: "0.1", ttft: 20, rate: 500},
		{id: "plain", input: "0.7", output: "2", ttft: 20, rate: 500},
	}, routing: steady}, false)
	n := s.gateway("g")
	n.warm(3, ask{})
	for _, header := range []map[string]string{
		{"User-Agent": "claude-cli/2.0.14 (external, cli)"}, {"User-Agent": "codex_cli_rs/0.46.0 (Mac OS)"}, {"User-Agent": "opencode/1.0.3"},
		{"User-Agent": "Mozilla/5.0 Cursor/2.1.0"}, {"X-Source": "cline"}, {"X-Title": "Roo Code"}, {"Referer": "https://kilocode.ai/x"},
		{"X-Source": "continue"}, {"User-Agent": "GitHubCopilotChat/0.32"}, {"User-Agent": "QwenCode/0.0.14 (linux; x64)"}, {"User-Agent": "factory-cli/0.2"},
	} {
		n.goes("caching", "weighted-score", ask{tokens: 6000, header: header})
		n.goes("caching", "weighted-score", ask{tokens: 5000, header: header})
		n.goes("plain", "weighted-score", ask{tokens: 4999, header: header})
		n.goes("plain", "weighted-score", ask{tokens: 50, header: header})
	}
	for _, agent := range []string{"curl/8.5.0", "Mozilla/5.0 (X11; Linux x86_64)", "OpenAI/Python 2.8.1", "OpenAI/JS 6.9.1", "precursor/1.0", "python-requests/2.32"} {
		n.goes("plain", "weighted-score", ask{tokens: 6000, header: map[string]string{"User-Agent": agent}})
	}
	n.goes("plain", "session-sticky", ask{tokens: 6000, header: map[string]string{"X-Claude-Code-Session-Id": "no client by itself"}})
}

func TestStablePreferenceHoldsWithinItsMargin(t *testing.T) {
	t.Parallel()
	set := setup{
		hosts:    []host{{id: "a"}, {id: "b"}},
		routing:  "{thresholds: {exploration_rate: 0}, " + byPrice + "}",
		projects: map[string]string{"brief": "{thresholds: {exploration_rate: 0}, sticky: {ttl_seconds: 2}, " + byPrice + "}"},
	}
	// The output price stays 1, so a ranking price of 1.2 is an input price of 1.4.
	priced := func(a, b float64) setup {
		return set.change(func(h *host) {
			price := map[string]float64{"a": a, "b": b}[h.id]
			h.input, h.output = fmt.Sprint(2*price-1), "1"
		})
	}
	s := newStack(t, priced(1, 1.2), false)
	n := s.gateway("g")
	n.warm(3, ask{})
	n.goes("a", "weighted-score", ask{})
	n.goes("a", "stable-preferred", ask{})
	s.rewrite(priced(1.2, 1), n) // 0.6/1.1 x 0.2 = 0.1091 above the best
	n.goes("a", "stable-preferred", ask{})
	n.goes("b", "weighted-score", ask{model: "m:cheap"}) // another strategy has a preference of its own
	s.rewrite(priced(1.6, 1), n)                         // 0.3273
	n.goes("b", "weighted-score", ask{})
	s.rewrite(priced(1, 1.2), n)
	n.goes("b", "stable-preferred", ask{})

	// Use does not extend it. It belongs to the organization, so the other one has to go first.
	s.rewrite(priced(1, 1.6), n)
	n.goes("a", "weighted-score", ask{project: "brief"})
	began := time.Now()
	s.rewrite(priced(1.2, 1), n)
	if got := n.send(ask{project: "brief"}); got.Provider != "a" && time.Since(began) < 1900*time.Millisecond {
		t.Errorf("the preference was dropped after %s of 2 s", time.Since(began))
	}
	testkit.Eventually(t, 5*time.Second, "the preference ends", func() error {
		if got := n.send(ask{project: "brief"}); got.Provider != "b" {
			return fmt.Errorf("still %s (%s)", got.Provider, got.Reason)
		}
		return nil
	})
	if took := time.Since(began); took < 1900*time.Millisecond {
		t.Errorf("it ended after %s of 2 s", took)
	}
}

func TestProjectConfigurationIsMergedAndReadAgain(t *testing.T) {
	t.Parallel()
	with := func(routing string) setup {
		return setup{hosts: contrasts(), routing: routing}
	}
	const calm = "thresholds: {exploration_rate: 0}, sticky: {enabled: false}"
	s := newStack(t, with("{thresholds: {exploration_rate: 0}}"), false)
	n := s.gateway("g")
	n.warm(3, ask{stream: true})
	defaults := weights{.6, .5, .3}
	for _, c := range []struct {
		routing, provider string
		weights           weights
	}{
		{"{" + calm + "}", "cheap", defaults},
		{"{" + calm + ", weights: {throughput: 5}}", "quick", weights{.6, .5, 5}},
		{"{" + calm + ", weights: {price: 10}}", "cheap", weights{10, .5, .3}}, // throughput is the default again
		{"{" + calm + ", weights: {price: 0, uptime: 0}}", "quick", weights{0, 0, .3}},
		{"{thresholds: {explorationRate: 0}, sticky: {enabled: false}, weights: {throughput: 5}}", "quick", weights{.6, .5, 5}}, // the seeds' spelling
		{"{" + calm + ", weights: {throughput: 5}, provider_priorities: {quick: 0}}", "prompt", weights{.6, .5, 5}},
		{"{enabled: false, weights: {throughput: 5}, sticky: {enabled: false}}", "cheap", defaults},
	} {
		s.rewrite(with(c.routing), n)
		got := n.send(ask{})
		for range 100 { // with defaults one in a hundred explores, and the last choice may be preferred
			if got.Reason == "weighted-score" {
				break
			}
			if got = n.send(ask{}); strings.HasPrefix(c.routing, "{enabled: false") && got.Provider == c.provider {
				break
			}
		}
		if got.Provider != c.provider {
			t.Errorf("%s: went to %q (%s), want %s; considered %s", c.routing, got.Provider, got.Reason, c.provider, figures(got.Considered))
		}
		c.weights.check(t, c.routing, got)
	}
	// A configuration out of range is refused with its path, and the last good one stays.
	s.write(with("{" + calm + ", weights: {price: -1}}"))
	testkit.Eventually(t, 5*time.Second, "the mistake is told", func() error {
		if !strings.Contains(n.logs.String(), "routing.weights.price") {
			return fmt.Errorf("log: %s", n.logs)
		}
		return nil
	})
	n.goes("cheap", "", ask{})
}

// weights of price, uptime and throughput; plain requests have no other.
type weights struct{ price, uptime, throughput float64 }

// check works out the scores by hand from what the decision says it knew.
func (w weights) check(t *testing.T, says string, a answer) {
	t.Helper()
	price, uptime, throughput, n := math.Inf(1), 0.0, 0.0, 0
	for _, c := range a.Considered {
		if c.Score != nil {
			price, uptime, throughput = min(price, c.Price), max(uptime, *c.Uptime), max(throughput, *c.Throughput)
			n++
		}
	}
	if n < 2 {
		t.Errorf("%s: only %d candidates were scored: %s", says, n, figures(a.Considered))
	}
	total := w.price + w.uptime + w.throughput
	for _, c := range a.Considered {
		if c.Score == nil {
			continue
		}
		want := (w.price*(c.Price/price-1) + w.uptime*(uptime / *c.Uptime - 1) + w.throughput*min(throughput / *c.Throughput - 1, 3)) / total
		if math.Abs(want-*c.Score) > 1e-5*max(1, want) {
			t.Errorf("%s: %s scored %v, by hand %v", says, c.Provider, *c.Score, want)
		}
	}
}
