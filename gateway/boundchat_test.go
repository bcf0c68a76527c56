package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A chat conversation with reasoning that only one provider can read went to whoever was cheapest.
func TestReasoningInChatIsBoundToItsIssuer(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("alpha", scripted("hello"))
	const details = `"reasoning_details":[{"type":"reasoning.encrypted","data":"c2VjcmU\u003d","id":"r"}]` // as Google's writers escape
	u.script("think", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x",`+details+`},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	})
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "think", price: "{input: 9, output: 9}"}), nil).ready()
	if r := n.chat(`{"model":"think:m","messages":[{"role":"user","content":"x"}]}`); r.status != 200 || !strings.Contains(r.body, details) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	replay := `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"x",` + strings.Replace(details, `\u003d`, "=", 1) + `},{"role":"user","content":"y"}]}` // as clients write
	for range 3 {
		if r := n.chat(replay); r.status != 200 || r.at("turnout.used_provider") != "think" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := n.chat(strings.Replace(replay, "c2VjcmU=", "b3RoZXI=", 1)); r.status != 200 || r.at("turnout.used_provider") != "alpha" {
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

// Reasoning that Claude signed is bound to who issued it when clients of Responses bring it back.
func TestSignedReasoningInResponsesIsBoundToItsIssuer(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("alpha", scripted("hello"))
	u.script("ant", func(w http.ResponseWriter, r *http.Request) {
		const head = `{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[`
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range []string{
				`{"type":"message_start","message":` + head + `],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c3RyZWFt"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`,
			} {
				fmt.Fprintf(w, "data: %s\n\n", e)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, head+`{"type":"thinking","thinking":"Hm","signature":"cGxhaW4="},{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	})
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "ant", price: "{input: 9, output: 9}"})
	n := start(t, strings.Replace(doc, "id: ant\nprotocol: openai", "id: ant\nprotocol: anthropic", 1), nil).ready()
	for stream, sealed := range map[string]string{"false": "turnout-signed:cGxhaW4=", "true": "turnout-signed:c3RyZWFt"} {
		r := n.responses(`{"model":"ant:m","input":"x","stream":` + stream + `,"include":["reasoning.encrypted_content"]}`)
		if r.status != 200 || !strings.Contains(r.body, `"encrypted_content":"`+sealed+`"`) {
			t.Fatalf("%d %s", r.status, r.body)
		}
		replay := `{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"` + sealed + `"},{"role":"user","content":"y"}]}`
		for range 3 {
			if r := n.responses(replay); r.status != 200 || r.at("turnout.used_provider") != "ant" {
				t.Errorf("stream %s: %d %s", stream, r.status, r.body)
			}
		}
	}
	u.script("ant", status(503, "down"))
	if r := n.responses(`{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"turnout-signed:cGxhaW4="},{"role":"user","content":"y"}]}`); r.status != 503 || r.at("error.code") != "reasoning_provider_unavailable" {
		t.Errorf("%d %s", r.status, r.body)
	}
}
