package gateway

import (
	"fmt"
	"strings"
	"testing"

	"turnout/schemas/attempt"
)

func TestPlainChat(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}), nil).ready()
	r := n.chat(chatBody, "X-Request-Id", "mine-1", "User-Agent", "curl/8 x", "X-Source", "shop")
	if r.status != 200 || r.at("choices.0.message.content") != "hello from alpha" || r.at("model") != "m" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for path, want := range map[string]any{
		"metadata.requested_model": "m", "metadata.used_model": "alpha/m", "metadata.used_provider": "alpha", "metadata.cached": false,
		"metadata.cost_usd": 0.00002, "metadata.routing.0.provider": "alpha", "metadata.routing.0.status_code": 200.0,
		"metadata.routing.0.error_type": "none", "metadata.routing.0.succeeded": true, "metadata.routing.0.credentialSource": "platform",
		"turnout.used_model": "alpha/m", "metadata.routing.1": nil, "usage.total_tokens": 15.0,
	} {
		if got := r.at(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	h := r.header
	if id := h.Get("X-Request-Id"); id == "mine-1" || id != r.at("metadata.request_id") {
		t.Errorf("x-request-id %q", id)
	}
	if h.Get("X-Turnout-Provider") != "alpha" || h.Get("X-Turnout-Model") != "m" || h.Get("X-Turnout-Attempts") != "1" {
		t.Errorf("headers %v", h)
	}
	calls := u.called("")
	if len(calls) != 1 || calls[0].model != "up-alpha" || !strings.HasPrefix(calls[0].secret, "sk-alpha_0-") {
		t.Fatalf("calls %+v", calls)
	}
	if got := calls[0].header.Get("User-Agent"); !strings.HasPrefix(got, "turnout/") {
		t.Errorf("the upstream saw User-Agent %q", got)
	}
	events := n.events(1)
	balanced(t, u, events)
	e := events[0]
	if e.Outcome != attempt.Completed || e.Provider != "alpha" || e.Model != "m" || e.UpstreamModel != "up-alpha" || e.RequestID != h.Get("X-Request-Id") ||
		e.ClientRequestID != "mine-1" || e.Client != "curl/8" || e.Source != "shop" || e.InputTokens != 10 || e.OutputTokens != 5 ||
		e.CostNanoUSD != 20_000 || e.CostInputNanoUSD != 10_000 || e.BaselineKind != "provider" || e.BaselineProvider != "beta" || e.BaselineNanoUSD != 60_000 ||
		e.Reason != "price-only-no-metrics" || e.AttemptNo != 1 || e.OrganizationID != "acme" || e.ProjectID != "web" || e.APIKeyID != "web-1" ||
		e.StatusCode != 200 || e.FinishReason != "stop" || e.UsageSource != attempt.UsageReported || e.PromptTokensEstimate != 3 ||
		e.ConsideredTotal != 2 || len(e.Considered) != 2 || e.ConfigVersion == "" || e.PriceVersion == "" || e.WillRetry {
		t.Errorf("event %+v", e)
	}
}

func TestStream(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	for _, usage := range []bool{false, true} {
		body := streamBody
		if usage {
			body = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello world"}]}`
		}
		u.script("alpha", answer("one two three"))
		r := n.chat(body)
		if r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" || r.header.Get("X-Turnout-Provider") != "alpha" {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		if !strings.HasSuffix(r.body, "data: [DONE]\n\n") || strings.Count(r.body, `"request_id"`) != 2 {
			t.Errorf("usage=%v: %s", usage, r.body)
		}
		for _, event := range strings.Split(r.body, "\n\n") {
			data := strings.TrimPrefix(event, "data: ")
			has := reply{body: data}.at("metadata.used_model") == "alpha/m"
			want := strings.Contains(data, `"finish_reason":"stop"`)
			if usage {
				want = strings.Contains(data, `"usage":{`)
			}
			if has != want {
				t.Errorf("usage=%v: metadata %v in %s", usage, has, data)
			}
		}
		if strings.Contains(r.body, `"usage":{`) != usage {
			t.Errorf("usage=%v: %s", usage, r.body)
		}
	}
	if r := n.chat(streamBody, "X-Turnout-Metadata", "off"); strings.Contains(r.body, "metadata") || strings.Contains(r.body, "turnout") {
		t.Errorf("metadata although it is off: %s", r.body)
	}
	events := n.events(3)
	balanced(t, u, events)
	for _, e := range events {
		if e.Outcome != attempt.Completed || !e.Stream || e.TTFTUS == nil || e.OutputTokens != 5 || e.FinishReason != "stop" {
			t.Errorf("event %+v", e)
		}
	}
}

func TestRetryElsewhere(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"}), nil).ready()
	u.script("alpha", status(500, "boom"))
	for i, body := range []string{chatBody, streamBody} {
		r := n.chat(body)
		if r.status != 200 || !strings.Contains(r.body, "beta") || r.header.Get("X-Turnout-Attempts") != "2" {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		if i == 0 {
			for path, want := range map[string]any{
				"metadata.routing.0.provider": "alpha", "metadata.routing.0.status_code": 500.0, "metadata.routing.0.error_type": "server_error",
				"metadata.routing.0.succeeded": false, "metadata.routing.1.provider": "beta", "metadata.routing.1.succeeded": true, "metadata.used_provider": "beta",
			} {
				if got := r.at(path); got != want {
					t.Errorf("%s is %v, want %v", path, got, want)
				}
			}
		}
	}
	events := n.events(4)
	balanced(t, u, events)
	for _, e := range events {
		if failed := e.Provider == "alpha"; e.WillRetry != failed || (e.Outcome == attempt.UpstreamError) != failed || e.AttemptNo != map[bool]int{true: 1, false: 2}[failed] {
			t.Errorf("event %+v", e)
		}
	}
}

// What cannot be served is refused in one shape, with a reason and the right status.
func TestErrors(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha", mapping: ", context: 8000, capabilities: [tools]"}), func(c *Config) { c.MaxBodyBytes = 4096 }).ready()
	long := strings.Repeat("word ", 1000)
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		kind, code, text   string
	}{
		"malformed":        {body: `{"model":"m","messages":[}`, status: 400, kind: "invalid_request_error", code: "invalid_json", text: "25"},
		"wrong type":       {body: `{"model":"m","messages":"x"}`, status: 400, kind: "invalid_request_error", code: "invalid_value", text: "messages"},
		"unknown model":    {body: `{"model":"mm","messages":[{"role":"user","content":"x"}]}`, status: 400, kind: "invalid_request_error", code: "model_not_found", text: `mm`},
		"no key":           {body: chatBody, header: []string{"Authorization", ""}, status: 401, kind: "authentication_error", code: "invalid_api_key"},
		"unknown key":      {body: chatBody, header: []string{"Authorization", "Bearer to-nobody"}, status: 401, kind: "authentication_error", code: "invalid_api_key"},
		"revoked key":      {body: chatBody, header: []string{"Authorization", "Bearer to-revoked"}, status: 401, kind: "authentication_error", code: "invalid_api_key", text: "revoked"},
		"x-api-key":        {body: `{"model":"mm"}`, header: []string{"Authorization", "", "X-Api-Key", token}, status: 400, kind: "invalid_request_error"},
		"no provider":      {body: `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/i.png"}}]}]}`, status: 400, kind: "invalid_request_error", code: "no_provider_available", text: "alpha (vision)"},
		"too long":         {body: `{"model":"m","max_tokens":7999,"messages":[{"role":"user","content":"` + long[:3000] + `"}]}`, status: 400, kind: "invalid_request_error", code: "no_provider_available", text: "context_size"},
		"body too large":   {body: `{"model":"m","x":"` + long + `"}`, status: 413, kind: "invalid_request_error", code: "body_too_large"},
		"not JSON":         {body: chatBody, header: []string{"Content-Type", "text/plain"}, status: 415, kind: "invalid_request_error", code: "unsupported_media_type"},
		"odd encoding":     {body: chatBody, header: []string{"Content-Encoding", "br"}, status: 415, kind: "invalid_request_error", code: "unsupported_media_type"},
		"bad gzip":         {body: chatBody, header: []string{"Content-Encoding", "gzip"}, status: 400, kind: "invalid_request_error", code: "invalid_json"},
		"unknown path":     {method: "GET", path: "/v2/x", status: 404, kind: "invalid_request_error", code: "not_found"},
		"wrong method":     {method: "GET", path: "/v1/chat/completions", status: 405, kind: "invalid_request_error", code: "method_not_allowed", text: "POST"},
		"unknown provider": {body: `{"model":"alpha/zz","messages":[{"role":"user","content":"x"}]}`, status: 400, kind: "invalid_request_error", code: "model_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method, c.path = "POST", "/v1/chat/completions"
			}
			r := n.do(c.method, n.url+c.path, c.body, c.header...)
			message, _ := r.at("error.message").(string)
			if r.status != c.status || r.at("error.type") != c.kind || (c.code != "" && r.at("error.code") != c.code) || message == "" || !strings.Contains(r.body, c.text) {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if r.header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", r.header.Get("Content-Type"))
			}
			if c.status == 405 && r.header.Get("Allow") != "OPTIONS, POST" && r.header.Get("Allow") != "POST" {
				t.Errorf("Allow %q", r.header.Get("Allow"))
			}
		})
	}
	if calls := u.called(""); len(calls) != 0 {
		t.Errorf("%d calls were made for requests that were refused", len(calls))
	}
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 200} {
		if r := n.do("GET", n.url+path, ""); r.status != want {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
	if r := n.do("HEAD", n.url+"/", ""); r.status != 200 {
		t.Errorf("HEAD /: %d", r.status)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha", price: "{input: 0.15, output: 0.6, cached_input: 0.015}", mapping: ", context: 1000, max_output: 100, capabilities: [tools]"}), nil).ready()
	list := n.do("GET", n.url+"/v1/models", "")
	one := n.do("GET", n.url+"/v1/models/m", "")
	alias := n.do("GET", n.url+"/v1/models/m-alias", "")
	for path, want := range map[string]any{
		"id": "m", "object": "model", "context_length": 1000.0, "pricing.input": "0.15", "pricing.cached_input": "0.015",
		"providers.0.provider": "alpha", "providers.0.max_output": 100.0, "capabilities.0": "tools",
	} {
		for _, got := range []any{list.at("data.0." + path), one.at(path), alias.at(path)} {
			if got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
	}
	if r := n.do("GET", n.url+"/v1/models/nope", ""); r.status != 404 || r.at("error.code") != "model_not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.do("GET", n.url+"/v1/models", "", "Authorization", ""); r.status != 401 {
		t.Errorf("without a key: %d", r.status)
	}
}

func TestUnconfiguredUpstreamIsSkipped(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha", price: "{input: 0.1, output: 0.1}"}, providerSpec{id: "beta"})
	doc = strings.Replace(doc, "SECRET_ALPHA_0", "MISSING", 1)
	n := start(t, doc, nil).ready()
	r := n.chat(chatBody, "X-Turnout-Explain", "true")
	if r.status != 200 || r.at("metadata.used_provider") != "beta" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := fmt.Sprintf("%v %v", r.at("metadata.considered.0.provider"), r.at("metadata.considered.0.excluded_code")); got != "alpha no_provider_key" {
		t.Errorf("considered: %s", got)
	}
}
