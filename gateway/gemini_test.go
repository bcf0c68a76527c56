package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// google serves generateContent as it is asked.
func google(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.Contains(r.URL.Path, "/v1/models/up-goo:") || r.Header.Get("X-Goog-Api-Key") == "" || !json.Valid(body) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	const rest = `,"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2},"responseId":"r"}`
	part := `{"text":"hello from goo"}`
	if strings.Contains(string(body), "functionDeclarations") {
		part = `{"functionCall":{"name":"weather","args":{"city":"Brno"}}}`
	}
	whole := `{"candidates":[{"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP"}]` + rest
	if r.URL.RawQuery == "alt=sse" {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\r\n\r\n", whole)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, whole)
}

func TestEverySurfaceToGemini(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("goo", google)
	doc := strings.Replace(resources(u.URL, noExploration, providerSpec{id: "goo"}), "id: goo\nprotocol: openai", "id: goo\nprotocol: gemini", 1)
	n := start(t, doc, nil).ready()
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello from goo" || r.at("usage.completion_tokens") != 5.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.chat(streamBody); !strings.Contains(r.body, `"content":"hello from goo"`) || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("%s", r.body)
	}
	tools := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"weather","input_schema":{"type":"object"}}]}`
	if r := n.messages(tools); r.status != 200 || r.at("content.0.input.city") != "Brno" || r.at("stop_reason") != "tool_use" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.responses(`{"model":"m","input":"x","stream":true}`); !strings.Contains(r.body, "event: response.completed\n") {
		t.Errorf("%s", r.body)
	}
	events := n.events(4)
	for _, e := range events {
		if e.InputTokens != 10 || e.CachedInputTokens != 4 || e.OutputTokens != 5 || e.ReasoningTokens != 2 || e.FinishReason != "STOP" {
			t.Errorf("%+v", e)
		}
	}
}

// Gemini before the third generation refuses tools together with a schema; such requests went there.
func TestToolsWithASchemaGoToWhoTakesBoth(t *testing.T) {
	t.Parallel()
	for upstream, taken := range map[string]bool{"gemini-2.5-flash": false, "gemini-3-pro": true} {
		u := newUpstreams(t)
		u.script("goo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"candidates":[{"content":{"parts":[{"text":"{}"}]},"finishReason":"STOP"}],"responseId":"r"}`)
		})
		doc := strings.Replace(resources(u.URL, noExploration, providerSpec{id: "goo"}), "id: goo\nprotocol: openai", "id: goo\nprotocol: gemini", 1)
		n := start(t, strings.ReplaceAll(doc, "up-goo", upstream), nil).ready()
		const (
			tools  = `,"tools":[{"type":"function","function":{"name":"f"}}]`
			schema = `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`
		)
		for extra, want := range map[string]bool{tools: true, schema: true, tools + schema: taken} {
			r := n.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]` + extra + `}`)
			if got := r.status == 200; got != want || !want && r.at("error.code") != "no_provider_available" {
				t.Errorf("%s: %s: %d %s", upstream, extra, r.status, r.body)
			}
		}
	}
}
