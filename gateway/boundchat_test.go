package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A chat conversation with reasoning that only one provider can read went to whoever was cheapest.
func TestReasoningInChatIsBoundToItsIssuer(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("alpha", scripted("hello"))
	const details = `"reasoning_details":[{"type":"reasoning.encrypted","data":"c2VjcmV0","id":"r"}]`
	u.script("think", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x",`+details+`},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	})
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "think", price: "{input: 9, output: 9}"}), nil).ready()
	if r := n.chat(`{"model":"think:m","messages":[{"role":"user","content":"x"}]}`); r.status != 200 || !strings.Contains(r.body, details) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	replay := `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x",` + details + `},{"role":"user","content":"y"}]}`
	for range 3 {
		if r := n.chat(replay); r.status != 200 || r.at("turnout.used_provider") != "think" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := n.chat(strings.Replace(replay, "c2VjcmV0", "b3RoZXI=", 1)); r.status != 200 || r.at("turnout.used_provider") != "alpha" {
		t.Errorf("nobody's reasoning: %d %s", r.status, r.body)
	}
	before := len(u.called("alpha"))
	u.script("think", status(503, "down"))
	if r := n.chat(replay); r.status != 503 || r.at("error.code") != "reasoning_provider_unavailable" || !strings.Contains(r.body, "think") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if len(u.called("alpha")) != before {
		t.Error("somebody else was asked")
	}
}

// Tools in their old form were left out of a translation, and the model answered without them.
func TestOldFunctionsAreNotDroppedByATranslation(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("ant", claude("without tools"))
	u.script("alpha", scripted("hello from alpha"))
	n := start(t, mixed(u.URL), nil).ready()
	const ask = `{"model":"%s","messages":[{"role":"user","content":"x"}],"functions":[{"name":"f"}],"function_call":"auto"}`
	for range 5 {
		if r := n.chat(fmt.Sprintf(ask, "m")); r.status != 200 || r.at("turnout.used_provider") != "alpha" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := n.chat(fmt.Sprintf(ask, "ant:m")); r.status != 400 || r.at("error.code") != "no_provider_available" || len(u.called("ant")) > 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
