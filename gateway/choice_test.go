package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

// seen makes the node believe that it made attempts of which so many failed.
func (n *node) seen(provider string, attempts, failed int) {
	now := n.g.poller.Now()
	for i := range attempts {
		e := attempt.Event{EventID: fmt.Sprintf("seen-%s-%d-%d", provider, now.UnixNano(), i), Provider: provider, Model: "m", Endpoint: attempt.EndpointChat,
			Outcome: attempt.Completed, StartedAt: now, FinishedAt: now}
		if i < failed {
			e.Outcome = attempt.UpstreamError
		}
		n.g.poller.Observe(&e)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	const onlyPrice = "{weights: {uptime: 0, throughput: 0, latency: 0}, thresholds: {exploration_rate: 0}, sticky: {enabled: false}}"
	for name, c := range map[string]struct {
		mode    string
		scripts map[string]http.HandlerFunc
		status  int
		trail   string // keys called
		sources string // credentialSource of each attempt
	}{
		"platform uses the host's keys":         {mode: "platform", status: 200, trail: "alpha_0", sources: "platform"},
		"byok uses the tenant's":                {mode: "byok", status: 200, trail: "own_beta", sources: "byok"},
		"byok does not fall back on the host's": {mode: "byok", scripts: map[string]http.HandlerFunc{"beta": status(404, "x")}, status: 502, trail: "own_beta", sources: "byok"},
		"hybrid prefers the tenant's":           {mode: "hybrid", status: 200, trail: "own_beta", sources: "byok"},
		"hybrid goes on with the host's":        {mode: "hybrid", scripts: map[string]http.HandlerFunc{"beta": inTurn(status(500, "x"), answer("fine"))}, status: 200, trail: "own_beta alpha_0", sources: "byok platform"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstreams(t)
			for p, h := range c.scripts {
				u.script(p, h)
			}
			doc := resources(u.URL, onlyPrice, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"})
			doc = strings.Replace(doc, "mode: platform", "mode: "+c.mode, 1)
			doc += "---\nkind: provider_key\nid: acme-beta\nname: our own\norganization: acme\nprovider: beta\nsecret: env:SECRET_OWN_BETA\n"
			n := start(t, doc, nil).ready()
			r := n.chat(chatBody)
			var sources []string
			list, _ := r.at("metadata.routing").([]any)
			for _, a := range list {
				sources = append(sources, fmt.Sprint(dig(a, "credentialSource")))
				if own := dig(a, "credentialSource") == "byok"; own != (dig(a, "providerKeyId") == "acme-beta") || own != (dig(a, "providerKeyLabel") == "our own") {
					t.Errorf("key of %v", a)
				}
			}
			if r.status != c.status || trail(u) != c.trail || strings.Join(sources, " ") != c.sources {
				t.Errorf("%d, called %q, sources %q: %s", r.status, trail(u), sources, r.body)
			}
			for _, e := range n.events(len(list)) {
				if (e.CredentialSource == attempt.BYOK) != (e.ProviderKeyID == "acme-beta") || len(e.ProviderKeyHash) != 7 {
					t.Errorf("event %+v", e)
				}
			}
		})
	}
}

func TestExplicitProviderOfLowUptime(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}), nil).ready()
	explicit := strings.Replace(chatBody, `"m"`, `"alpha/m"`, 1)
	if r := n.chat(explicit); r.at("metadata.used_provider") != "alpha" || r.at("metadata.reason") != "direct-provider-specified" || r.at("metadata.requested_provider") != "alpha" {
		t.Fatalf("%s", r.body)
	}
	n.seen("alpha", 100, 40)
	time.Sleep(20 * time.Millisecond)
	if r := n.chat(explicit); r.at("metadata.used_provider") != "beta" || r.at("metadata.reason") != "low-uptime-fallback" {
		t.Errorf("%s", r.body)
	}
	if r := n.chat(explicit, "X-No-Fallback", "true"); r.at("metadata.used_provider") != "alpha" {
		t.Errorf("%s", r.body)
	}
	if r := n.chat(strings.Replace(chatBody, `"m"`, `"alpha:m"`, 1)); r.at("metadata.used_provider") != "alpha" {
		t.Errorf("strict: %s", r.body)
	}
	for _, e := range n.events(4) {
		if e.Reason == "low-uptime-fallback" && (e.OriginalProvider != "alpha" || e.OriginalUptime == nil) {
			t.Errorf("event %+v", e)
		}
	}
}

// The node reacts to what it sees itself within its next requests, without a snapshot.
func TestOwnAttemptsSteer(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 1.05, output: 2.1}"}), nil).ready()
	if r := n.chat(chatBody); r.at("metadata.used_provider") != "alpha" {
		t.Fatalf("%s", r.body)
	}
	n.seen("alpha", 100, 40)
	n.seen("beta", 100, 0)
	time.Sleep(20 * time.Millisecond)
	if r := n.chat(chatBody, "X-Turnout-Explain", "true"); r.at("metadata.used_provider") != "beta" {
		t.Errorf("%s", r.body)
	}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}), nil).ready()
	now := n.g.poller.Now()
	for p, us := range map[string]int64{"alpha": 4_000_000, "beta": 1_000_000} {
		for i := range 30 {
			ttft := us / 4
			n.g.poller.Observe(&attempt.Event{EventID: fmt.Sprintf("%s-%d", p, i), Provider: p, Model: "m", Endpoint: attempt.EndpointChat, Outcome: attempt.Completed,
				StartedAt: now, FinishedAt: now, Stream: true, DurationUS: us, TTFTUS: &ttft, OutputTokens: 100})
		}
	}
	for model, want := range map[string]string{"m:cheap": "alpha", "m:nitro": "beta", "m:FAST": "beta"} {
		if r := n.chat(strings.Replace(streamBody, `"m"`, `"`+model+`"`, 1)); r.header.Get("X-Turnout-Provider") != want {
			t.Errorf("%s went to %s, want %s", model, r.header.Get("X-Turnout-Provider"), want)
		}
	}
	if r := n.chat(strings.Replace(chatBody, `"m",`, `"m","routing":"throughput",`, 1)); r.at("metadata.used_provider") != "beta" {
		t.Errorf("routing field: %s", r.body)
	}
	for _, c := range u.called("") {
		if strings.Contains(string(c.body), "routing") {
			t.Errorf("the upstream saw %s", c.body)
		}
	}
	if r := n.chat(strings.Replace(chatBody, `"m",`, `"alpha/m","routing":"price",`, 1)); r.status != 400 || r.at("error.param") != "routing" {
		t.Errorf("routing beside an explicit provider: %d %s", r.status, r.body)
	}
	for _, e := range n.events(4) {
		if e.RequestedModel != "m" && e.Strategy == "auto" {
			t.Errorf("event %+v", e)
		}
	}
}

func TestAuto(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"})
	doc += `---
kind: model
id: gpt-5.4
family: gpt
mappings: [{provider: alpha, upstream: big, price: {input: 10, output: 30}}]
---
kind: model
id: gpt-5.4-mini
family: gpt
mappings: [{provider: alpha, upstream: small, price: {input: 1, output: 2}, capabilities: [json_object]}]
---
kind: model
id: gratis
free: true
mappings: [{provider: alpha, upstream: gratis, price: {input: 0, output: 0}, capabilities: []}]
`
	n := start(t, doc, nil).ready()
	ask := func(extra, text string) reply {
		return n.chat(`{"model":"auto",` + extra + `"messages":[{"role":"user","content":"` + text + `"}]}`)
	}
	tools := `"tools":[{"type":"function","function":{"name":"f"}}],`
	for name, c := range map[string]struct{ extra, text, want string }{
		"the cheapest":                   {"", "hi", "alpha/gpt-5.4-mini"},
		"one that can":                   {tools, "hi", "alpha/gpt-5.4"},
		"not the smallest, large prompt": {"", strings.Repeat("word ", 9000), "alpha/gpt-5.4"},
		"free models only":               {`"free_models_only":true,`, "hi", "alpha/gratis"},
	} {
		if r := ask(c.extra, c.text); r.status != 200 || r.at("metadata.used_model") != c.want || r.at("metadata.requested_model") != "auto" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// What a session's later requests saved is measured against all models too.
	for range 2 {
		if r := ask(`"session_id":"s-1",`, "hi"); r.status != 200 || r.at("metadata.used_model") != "alpha/gpt-5.4-mini" {
			t.Errorf("in a session: %d %s", r.status, r.body)
		}
	}
	if r := ask(tools+`"free_models_only":true,`, "hi"); r.status != 400 || r.at("error.code") != "no_provider_available" || !strings.Contains(r.body, "tools") {
		t.Errorf("nothing fits: %d %s", r.status, r.body)
	}
	for _, e := range n.events(6) {
		if e.Model == "gpt-5.4-mini" && (e.BaselineKind != "model" || e.BaselineModel != "gpt-5.4" || e.BaselineNanoUSD != 250_000 || e.CostNanoUSD != 20_000) {
			t.Errorf("event %+v", e)
		}
	}
}

// What auto demands of a model's reasoning is what is demanded of a provider's: a mapping that declares
// nothing can do either.
func TestAutoAndReasoning(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"})
	for model, rest := range map[string]string{
		"gpt-5.4-nano": "price: {input: 1, output: 1}, capabilities: [reasoning], reasoning_efforts: [low]",
		"gpt-5.4-mini": "price: {input: 2, output: 2}, capabilities: [tools]",
		"gpt-5.4":      "price: {input: 3, output: 3}",
	} {
		doc += fmt.Sprintf("---\n{kind: model, id: %s, mappings: [{provider: alpha, upstream: up, %s}]}\n", model, rest)
	}
	n := start(t, doc, nil).ready()
	for extra, want := range map[string]string{
		``:                              "alpha/gpt-5.4-nano",
		`"no_reasoning":true,`:          "alpha/gpt-5.4-mini",
		`"reasoning_effort":"none",`:    "alpha/gpt-5.4-nano",
		`"reasoning_effort":"low",`:     "alpha/gpt-5.4-nano",
		`"reasoning_effort":"high",`:    "alpha/gpt-5.4",
		`"reasoning_effort":"unheard",`: "alpha/gpt-5.4-nano",
		`"reasoning_effort":"unheard","tools":[{"type":"function","function":{"name":"f"}}],`: "alpha/gpt-5.4",
	} {
		if r := n.chat(`{"model":"auto",` + extra + `"messages":[{"role":"user","content":"hi"}]}`); r.status != 200 || r.at("metadata.used_model") != want {
			t.Errorf("%s: want %s: %d %s", extra, want, r.status, r.body)
		}
	}
}

// A session of auto leaves a model whose providers all cool down, as any session leaves such a provider.
func TestASessionOfAutoLeavesADeadModel(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	doc := resources(u.URL, "{thresholds: {exploration_rate: 0}, retry: {max_retries: 0}}", providerSpec{id: "alpha"}, providerSpec{id: "beta"})
	doc += `---
kind: model
id: gpt-5.4
mappings: [{provider: beta, upstream: big, price: {input: 10, output: 30}}]
---
kind: model
id: gpt-5.4-mini
mappings: [{provider: alpha, upstream: small, price: {input: 1, output: 2}}]
`
	n := start(t, doc, nil).ready()
	body := `{"model":"auto","session_id":"s","messages":[{"role":"user","content":"hi"}]}`
	if r := n.chat(body); r.at("metadata.used_model") != "alpha/gpt-5.4-mini" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	u.script("alpha", status(500, "down"))
	for range 5 {
		if r := n.chat(body); r.at("metadata.used_model") == "beta/gpt-5.4" {
			break
		}
	}
	u.script("alpha", answer("up again"))
	for range 2 { // and stays where it went
		if r := n.chat(body); r.status != 200 || r.at("metadata.used_model") != "beta/gpt-5.4" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}
