package dispatch

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/gateway/catalog"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/schemas/resource"
)

// Every amount is written exactly, as a JSON number without needless digits.
func TestAppendUSD(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nano := rapid.Int64Range(-1<<62, 1<<62).Draw(t, "nano")
		text := string(appendUSD(nil, nano))
		got, ok := new(big.Rat).SetString(text)
		if want := big.NewRat(nano, 1e9); !ok || got.Cmp(want) != 0 {
			t.Fatalf("%d nano-USD became %s", nano, text)
		}
		if !json.Valid([]byte(text)) || strings.Contains(text, ".") && strings.HasSuffix(text, "0") {
			t.Fatalf("%s", text)
		}
	})
}

func TestTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		stream, reasons, probe bool
		facts                  llm.Facts
		effort                 routing.Effort
		tokens                 int64
		own                    resource.Timeouts
		project                resource.RoutingTimeouts
		left                   time.Duration // until the request's deadline
		output, firstByte      time.Duration
		total                  time.Duration
	}{
		"plain":                          {firstByte: 300 * time.Second, output: 60 * time.Second, total: 10 * time.Minute},
		"stream":                         {stream: true, firstByte: 300 * time.Second, output: 60 * time.Second, total: 20 * time.Minute},
		"a long prompt":                  {stream: true, tokens: 25_000, firstByte: 300 * time.Second, output: 65 * time.Second, total: 20 * time.Minute},
		"a reasoning model":              {stream: true, reasons: true, firstByte: 300 * time.Second, output: 180 * time.Second, total: 20 * time.Minute},
		"that is told not to":            {stream: true, reasons: true, facts: llm.Facts{NoReasoning: true}, firstByte: 300 * time.Second, output: 60 * time.Second, total: 20 * time.Minute},
		"that is told so by effort":      {stream: true, reasons: true, effort: routing.EffortNone, firstByte: 300 * time.Second, output: 60 * time.Second, total: 20 * time.Minute},
		"a probe":                        {stream: true, probe: true, firstByte: 300 * time.Second, output: 30 * time.Second, total: 20 * time.Minute},
		"a probe of a reasoning model":   {stream: true, probe: true, reasons: true, firstByte: 300 * time.Second, output: 180 * time.Second, total: 20 * time.Minute},
		"the provider's own":             {stream: true, own: resource.Timeouts{FirstOutput: 90 * time.Second, FirstByte: 400 * time.Second, Stream: time.Hour}, firstByte: 400 * time.Second, output: 90 * time.Second, total: 25 * time.Minute},
		"a project lowers":               {stream: true, project: resource.RoutingTimeouts{FirstOutput: 10 * time.Second, FirstByte: time.Second, Streaming: time.Minute}, firstByte: time.Second, output: 10 * time.Second, total: time.Minute},
		"a project does not raise":       {project: resource.RoutingTimeouts{FirstByte: time.Hour, Plain: time.Hour}, firstByte: 300 * time.Second, output: 60 * time.Second, total: 10 * time.Minute},
		"the request's deadline is near": {left: 3 * time.Second, firstByte: 300 * time.Second, output: 60 * time.Second, total: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if c.left == 0 {
				c.left = gatewayTimeout
			}
			c.facts.Stream = c.stream
			r := run{facts: &c.facts, deadline: time.Now().Add(c.left),
				access: &tenant.Access{Project: &tenant.Project{Project: &resource.Project{Routing: resource.Routing{Timeouts: c.project}}}}}
			r.in.Request.PromptTokens, r.in.Request.Effort = c.tokens, c.effort
			got := r.timeouts(&leg{timeouts: c.own, reasons: c.reasons}, c.probe)
			near := func(a, b time.Duration) bool { return (a - b).Abs() < time.Second }
			if got.FirstOutput != c.output || got.FirstByte != c.firstByte || !near(got.Total, c.total) || got.Connect != 10*time.Second {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestForwardedHeaders(t *testing.T) {
	r := run{req: &Request{Header: http.Header{"Cookie": {"c"}, "X-Tenant": {"t"}, "Openai-Beta": {"b"}, "X-Forwarded-For": {"1"}, "Idempotency-Key": {"k"}}}}
	l := leg{candidate: &catalog.Candidate{Provider: &resource.Provider{ForwardHeaders: []string{"x-tenant", "x-absent"}}}}
	h := r.forwarded(&l)
	if len(h) != 2 || h.Get("X-Tenant") != "t" || h.Get("OpenAI-Beta") != "b" {
		t.Errorf("forwarded %v", h)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		cred tenant.Credential
		want string
	}{
		{tenant.Credential{Secret: "sk-0123456789abcdef", BYOK: true}, "sk-0...cdef"},
		{tenant.Credential{Secret: "short", BYOK: true}, "..."},
		{tenant.Credential{Secret: "sk-0123456789abcdef", Name: "ours", BYOK: true}, "ours"},
		{tenant.Credential{Secret: "sk-0123456789abcdef", Name: "hosts"}, ""},
	} {
		if got := label(c.cred); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestTraceID(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"", "01a22e4e3820795d987b35e3dd05fa15"},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "01a22e4e3820795d987b35e3dd05fa15"},
		{"00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "01a22e4e3820795d987b35e3dd05fa15"},
		{"00-short", "01a22e4e3820795d987b35e3dd05fa15"},
	} {
		r := run{req: &Request{ID: "01a22e4e-3820-795d-987b-35e3dd05fa15", Header: http.Header{"Traceparent": {c.sent}}}}
		if got := r.trace(); got != c.want {
			t.Errorf("%q: %s, want %s", c.sent, got, c.want)
		}
	}
}

// In hybrid mode a tenant's key that cools down gives way to the host's, and is the last resort only
// where both cool down.
func TestACoolingTenantKeyLeavesTheCandidateToTheHostsKey(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	fresh := func(results ...state.Result) *state.Key {
		k := state.NewKeys(nil).Get(state.KeyID{Provider: "a"}, 0, 0)
		for _, result := range results {
			use, _ := k.Begin(now, false)
			use.End(now, result, 30*time.Second)
		}
		return k
	}
	dead := []state.Result{state.Failure, state.Failure, state.Failure}
	limited, refused := []state.Result{state.RateLimited}, []state.Result{state.InvalidKey}
	both := routing.BYOK | routing.Platform
	for _, c := range []struct {
		what           string
		tenant, host   []state.Result
		keys, removed  routing.Credentials
		cooling        routing.Cause
		cooldownEndsMS int64
	}{
		{"both well", nil, nil, both, 0, routing.NotCooling, 0},
		{"the tenant's fails", dead, nil, routing.Platform, 0, routing.NotCooling, 0},
		{"the tenant's is limited", limited, nil, routing.Platform, 0, routing.NotCooling, 0},
		{"the tenant's was refused", refused, nil, routing.Platform, routing.BYOK, routing.NotCooling, 0},
		{"the host's fails", nil, dead, routing.BYOK, 0, routing.NotCooling, 0},
		{"both fail", dead, dead, both, 0, routing.CoolingErrors, 5_000},
		{"one fails, one is limited", limited, dead, both, 0, routing.CoolingErrors, 5_000},
		{"both are limited", limited, limited, both, 0, routing.CoolingRateLimit, 30_000},
	} {
		l := leg{keys: []legKey{{kind: routing.BYOK}, {kind: routing.Platform}}, health: []*state.Key{fresh(c.tenant...), fresh(c.host...)}}
		var got routing.Candidate
		l.unwell(&got, now, "")
		if got.Credentials != c.keys || got.KeysRemoved != c.removed || got.Cooling != c.cooling || got.CooldownEndsMS != c.cooldownEndsMS {
			t.Errorf("%s: keys %b, removed %b, cooling %v for %d ms", c.what, got.Credentials, got.KeysRemoved, got.Cooling, got.CooldownEndsMS)
		}
	}
}
