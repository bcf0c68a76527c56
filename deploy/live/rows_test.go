package live

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/load"
	"turnout/gateway"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
)

// TestObservedRatesReplaceTheDefaults: 19 requests do not, nor do 20 with too few tokens; the 20th does.
func TestObservedRatesReplaceTheDefaults(t *testing.T) {
	t.Parallel()
	s := newStack(t, setup{hosts: []host{
		{id: "caching", input: "1", output: "2", cached: "0.1", ttft: 20, rate: 500},
		{id: "plain", input: "0.7", output: "2", ttft: 20, rate: 500},
	}, routing: steady, projects: map[string]string{"light": steady}}, true)
	first := s.gateway("first")
	first.warm(1, ask{project: "light", tokens: 900})
	for range 20 { // 21 successes, 18,900 tokens at caching; 19,800 of the model
		first.goes("caching", "", ask{project: "light", model: "caching/m", tokens: 900})
	}
	for range 17 {
		first.goes("caching", "", ask{model: "caching/m", tokens: 2000})
	}
	s.awaitUsage("main", 17)
	s.awaitUsage("light", 22)

	// Each node asks when it first serves a project, and then once a minute: a new node asks at once.
	second := s.gateway("second")
	for range 2 {
		second.goes("plain", "", ask{tokens: 6000}) // the 18th and 19th
		time.Sleep(300 * time.Millisecond)          // the answer to the first one's question is there
	}
	s.awaitUsage("main", 19)
	third := s.gateway("third")
	third.goes("plain", "", ask{project: "light", tokens: 5000})
	third.goes("caching", "", ask{model: "caching/m", tokens: 2000}) // the 20th; it asks, and gets 19
	s.awaitUsage("main", 20)
	input, cached, output := s.usage("main", "")
	hit := float64(cached) / float64(input)

	fourth := s.gateway("fourth")
	testkit.Eventually(t, 5*time.Second, "observed rates count", func() error {
		got := fourth.send(ask{tokens: 6000})
		if got.Provider != "caching" {
			return fmt.Errorf("went to %s; considered %s", got.Provider, figures(got.Considered))
		}
		return nil
	})
	type rate struct{ hit, ratio float64 }
	rates := func(node, project string) (all []rate) {
		t.Helper()
		found, err := s.db.Query(t.Context(), "SELECT assumeNotNull(hit_rate), assumeNotNull(output_ratio) FROM attempts_unique WHERE node_id = ? AND project_id = ? AND prompt_tokens_estimate >= 5000 ORDER BY started_at", node, project)
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		for found.Next() {
			var r rate
			if err := found.Scan(&r.hit, &r.ratio); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	testkit.Eventually(t, 10*time.Second, "rows", func() error {
		if n := len(rates("fourth", "main")); n < 1 {
			return fmt.Errorf("%d rows", n)
		}
		return nil
	})
	for _, c := range []struct{ node, project string }{{"second", "main"}, {"third", "light"}} {
		for i, r := range rates(c.node, c.project) {
			if r != (rate{.1, .2}) {
				t.Errorf("%s, %s, request %d: %v, want the defaults of an api workload", c.node, c.project, i, r)
			}
		}
	}
	all := rates("fourth", "main")
	got, want := all[len(all)-1], rate{hit, float64(output) / float64(input)}
	if math.Abs(got.hit-want.hit) > 1e-5 || math.Abs(got.ratio-want.ratio) > 1e-5 {
		t.Errorf("observed %v, by hand %v", got, want)
	}
	t.Logf("after 20 requests and %d tokens: hit rate %.4f for .1, output ratio %.5f for .2", input, got.hit, got.ratio)
}

// usage is what usage_hourly holds of a project, all providers if none is named.
func (s *stack) usage(project, provider string) (input, cached, output int64) {
	s.t.Helper()
	err := s.db.QueryRow(s.t.Context(), "SELECT sum(input_tokens), sum(cached_input_tokens), sum(output_tokens) FROM usage_hourly WHERE project_id = ? AND (provider = ? OR ? = '')", project, provider, provider).
		Scan(&input, &cached, &output)
	if err != nil {
		s.t.Fatal(err)
	}
	return input, cached, output
}

func (s *stack) awaitUsage(project string, successes int64) {
	s.t.Helper()
	testkit.Eventually(s.t, 15*time.Second, "usage of "+project, func() error {
		var got int64
		if err := s.db.QueryRow(s.t.Context(), "SELECT sum(successes) FROM usage_hourly WHERE project_id = ?", project).Scan(&got); err != nil {
			return err
		}
		if got != successes {
			return fmt.Errorf("%d successes, want %d", got, successes)
		}
		return nil
	})
}

// group is what the rows of a project say of one reason, provider and propensity.
type group struct {
	reason, provider string
	propensity       float64
	n                int
}

// groups waits for the rows of a project's requests, one each, and counts them.
func (s *stack) groups(project string, want int) []group {
	s.t.Helper()
	var all []group
	testkit.Eventually(s.t, 30*time.Second, "rows of "+project, func() error {
		found, err := s.db.Query(s.t.Context(), "SELECT reason, provider, propensity, toInt64(count()) FROM attempts_unique WHERE project_id = ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3", project)
		if err != nil {
			return err
		}
		defer found.Close()
		all = nil
		total := 0
		for found.Next() {
			var g group
			var n int64
			if err := found.Scan(&g.reason, &g.provider, &g.propensity, &n); err != nil {
				return err
			}
			g.n = int(n)
			all, total = append(all, g), total+g.n
		}
		if total != want {
			return fmt.Errorf("%d rows, want %d", total, want)
		}
		return found.Err()
	})
	return all
}

// within fails the test if a count of n draws is further from its mean than 4.9 standard deviations:
// chance does that once in a million times.
func within(t *testing.T, what string, got, n int, p float64) {
	t.Helper()
	mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	t.Logf("%s: %d of %d, %.3f %%; expected %.3f %%, %.1f +- %.1f", what, got, n, 100*float64(got)/float64(n), 100*p, mean, sd)
	if math.Abs(float64(got)-mean) > 4.9*sd+1 {
		t.Errorf("%s: %d of %d is not %g %%", what, got, n, 100*p)
	}
}

// explorations is how many requests exploration is measured on.
const explorations = 20_000

// TestExploration measures one in a hundred on all the requests of a load, by the rows they left.
func TestExploration(t *testing.T) {
	hosts := []host{{id: "a", input: "2", output: "4"}, {id: "b"}, {id: "c", input: "3", output: "6"}, {id: "d", input: "4", output: "8"}}
	// The choice without exploration is the cheapest, b.
	s := newStack(t, setup{hosts: hosts, routing: "{" + byPrice + "}", projects: map[string]string{
		"sessions": "{" + byPrice + "}", "priced": "{}", "everything": "{thresholds: {exploration_rate: 1}}"}}, true)
	n := s.gateway("g")
	drive := func(project, model string, requests int, session bool) {
		t.Helper()
		o := load.Options{URL: n.url, Key: tokenOf(project), Models: []string{model}, Requests: requests, Concurrency: 32, Seed: 1, MaxTokens: 1, PromptTokens: 10}
		if session { // one request each: what begins a session does not explore either
			for i := range requests {
				o.Trace = append(o.Trace, load.TraceRequest{InputTokens: 512, OutputTokens: 1, Blocks: []uint64{uint64(i)}})
			}
			o.Requests, o.MaxTokens, o.Sessions = 0, 0, true
		}
		sum, err := load.Run(t.Context(), o, nil)
		if err != nil || sum.OK != requests {
			t.Fatalf("%s: %d of %d: %v %v", project, sum.OK, requests, sum.Errors, err)
		}
	}
	drive("main", "m", explorations, false)
	drive("sessions", "m", 300, true)
	drive("priced", "m:cheap", 300, false)
	drive("everything", "b/m", 300, false)

	// Requests that explored and picked the usual choice b all the same are told by their reason.
	explored, others := 0, map[string]int{}
	inverse := map[string]float64{}
	for _, g := range s.groups("main", explorations) {
		want := .01 / 4
		if g.provider == "b" {
			want += .99
		}
		if math.Abs(g.propensity-want) > 1e-9 {
			t.Errorf("%+v: propensity, want %v", g, want)
		}
		inverse[g.provider] += float64(g.n) / g.propensity
		if g.reason != "random-exploration" {
			if g.provider != "b" {
				t.Errorf("%+v without exploring", g)
			}
			continue
		}
		explored += g.n
		others[g.provider] += g.n
	}
	within(t, "explored", explored, explorations, .01)
	for _, h := range hosts {
		within(t, "explored at "+h.id, others[h.id], explorations, .01/4)
		// What propensities are for: weighed by them, every provider stands for all requests.
		p := .01 / 4
		if h.id == "b" {
			p += .99
		}
		if sd := math.Sqrt((1 - p) / p * float64(explorations)); math.Abs(inverse[h.id]-float64(explorations)) > 4.9*sd+1/p {
			t.Errorf("weighed by propensity %s stands for %.0f of %d requests", h.id, inverse[h.id], explorations)
		}
	}
	for project, reason := range map[string]string{"sessions": "session-sticky", "priced": "", "everything": "direct-provider-specified"} {
		for _, g := range s.groups(project, 300) {
			if g.reason == "random-exploration" || g.propensity != 1 || reason != "" && g.reason != reason {
				t.Errorf("%s: %+v", project, g)
			}
		}
	}
}

// TestExplorationRate: the environment's rate beats the project's and holds under every strategy.
func TestExplorationRate(t *testing.T) {
	t.Parallel()
	hosts := []host{{id: "a", input: "2", output: "4"}, {id: "b"}, {id: "c", input: "3", output: "6"}}
	s := newStack(t, setup{hosts: hosts, routing: "{thresholds: {exploration_rate: 1}, " + byPrice + "}", projects: map[string]string{"never": "{thresholds: {exploration_rate: 0}}"}}, false)
	always, never := s.gateway("always", "EXPLORATION_RATE=1"), s.gateway("never", "EXPLORATION_RATE=0")
	counts := map[string]int{}
	const n = 300
	for i := range n {
		a := ask{project: "never"}
		if i%2 == 1 {
			a.model = "m:cheap"
		}
		got := always.send(a)
		if got.Reason != "random-exploration" {
			t.Fatalf("%+v: %s", a, got.Reason)
		}
		counts[got.Provider]++
		if got := never.send(ask{}); got.Reason == "random-exploration" {
			t.Fatal("explored at rate 0")
		}
	}
	for _, h := range hosts {
		within(t, h.id, counts[h.id], n, 1./3)
	}
	for range 5 {
		always.goes("b", "session-sticky", ask{session: "s"})
	}

	for _, wrong := range []string{"often", "-0.1", "1.1", "NaN"} {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		var logs lockedBuffer
		err = gateway.Main(context.Background(), lifecycle.Env{Args: s.args("wrong", process.Loopback(port)), Environ: s.environ("EXPLORATION_RATE=" + wrong), Stdout: &logs, Stderr: &logs}, nil)
		if lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), "exploration_rate") || !strings.Contains(err.Error(), wrong) {
			t.Errorf("EXPLORATION_RATE=%s: %v", wrong, err)
		}
	}
}

// TestAuto: the cheapest model that can serve the request, within what the client allows.
func TestAuto(t *testing.T) {
	t.Parallel()
	const (
		reasons = ", context: 100000, capabilities: [tools, reasoning], reasoning_efforts: [low, medium, high]"
		plain   = ", context: 20000, capabilities: [tools]"
		sees    = ", context: 100000, capabilities: [vision, tools]"
		hears   = ", context: 100000, capabilities: [audio]"
	)
	set := setup{
		models: []string{"gpt-5.4", "gpt-5.4-nano", "claude-haiku-4-5", "gift", "gift-thinks", "ear", "deaf"},
		of: map[string]string{
			"gpt-5.4": "family: gpt\n", "gpt-5.4-nano": "family: gpt\n", "claude-haiku-4-5": "family: claude\n",
			"gift": "free: true\n", "gift-thinks": "free: true\n",
		},
		hosts: []host{
			{id: "one", only: map[string]string{"gpt-5.4": reasons, "gpt-5.4-nano": plain, "gift": plain, "deaf": plain},
				priceOf: map[string]string{"gpt-5.4": "{input: 2, output: 10}", "gpt-5.4-nano": "{input: 0.2, output: 1.25}", "gift": "{input: 0, output: 0}", "deaf": "{input: 0.01, output: 0.01}"}},
			{id: "two", only: map[string]string{"gpt-5.4": reasons, "claude-haiku-4-5": sees, "gift-thinks": reasons, "ear": hears},
				priceOf: map[string]string{"gpt-5.4": "{input: 1.5, output: 8}", "claude-haiku-4-5": "{input: 1, output: 5}", "gift-thinks": "{input: 0, output: 0}", "ear": "{input: 5, output: 5}"}},
		},
		routing: quiet,
	}
	s := newStack(t, set, false)
	n := s.gateway("g")
	image := map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "text", "text": "what is it"}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,aGk="}}}}}}
	audio := map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": "aGk=", "format": "wav"}}}}}}
	for _, c := range []struct {
		says, model, provider string
		ask                   ask
	}{
		{"the cheapest of the built-in set", "gpt-5.4-nano", "one", ask{}},
		{"as a stream", "gpt-5.4-nano", "one", ask{stream: true}},
		{"its smallest is passed over above 10,000 tokens", "claude-haiku-4-5", "two", ask{tokens: 10_001}},
		{"not at 10,000", "gpt-5.4-nano", "one", ask{tokens: 10_000}},
		{"context: prompt and answer", "claude-haiku-4-5", "two", ask{tokens: 9000, body: map[string]any{"max_tokens": 12_000}}},
		{"an image", "claude-haiku-4-5", "two", ask{body: image}},
		{"audio: every active model that takes it", "ear", "two", ask{body: audio}},
		{"a reasoning effort", "gpt-5.4", "two", ask{body: map[string]any{"reasoning_effort": "medium"}}},
		{"effort none needs no reasoning", "gpt-5.4-nano", "one", ask{body: map[string]any{"reasoning_effort": "none"}}},
		{"no_reasoning", "gpt-5.4-nano", "one", ask{body: map[string]any{"no_reasoning": true}}},
		{"free models only", "gift", "one", ask{body: map[string]any{"free_models_only": true}}},
		{"free models that reason", "gift-thinks", "two", ask{body: map[string]any{"free_models_only": true, "reasoning_effort": "low"}}},
		{"free models by context", "gift-thinks", "two", ask{tokens: 30_000, body: map[string]any{"free_models_only": true}}},
	} {
		a := c.ask
		a.model = "auto"
		got := n.send(a)
		if got.Status != 200 || got.Model != c.model || got.Provider != c.provider {
			t.Errorf("%s: %s at %q (status %d %s), want %s at %s", c.says, got.Model, got.Provider, got.Status, got.Message, c.model, c.provider)
		}
	}
	for says, body := range map[string]map[string]any{
		"free and seeing":                   {"free_models_only": true, "messages": image["messages"]},
		"reasoning and not":                 {"reasoning_effort": "high", "no_reasoning": true},
		"a longer answer than any may give": {"max_tokens": 2_000_000},
	} {
		got := n.send(ask{model: "auto", body: body})
		if got.Status != http.StatusBadRequest || got.Code == "" || got.Message == "" {
			t.Errorf("%s: status %d %s %q at %s", says, got.Status, got.Code, got.Message, got.Model)
		}
		t.Logf("%s: %s: %s", says, got.Code, got.Message)
	}

	// A session keeps its model too.
	n.goes("one", "session-sticky", ask{model: "auto", session: "s"})
	s.rewrite(set.change(func(h *host) {
		if h.id == "one" {
			h.priceOf["gpt-5.4-nano"] = "{input: 9, output: 9}"
		}
	}), n)
	n.goes("two", "", ask{model: "auto"})
	if got := n.goes("one", "session-sticky", ask{model: "auto", session: "s"}); got.Model != "gpt-5.4-nano" {
		t.Errorf("the session moved to %s", got.Model)
	}
	if got := n.goes("two", "session-sticky", ask{model: "auto", session: "s", body: image}); got.Model != "claude-haiku-4-5" {
		t.Errorf("the session's image went to %s", got.Model)
	}
}
