package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// hosted are resources of one provider and mapping: "host", which speaks protocol at base.
func hosted(url, protocol, base, upstream, mapping string) string {
	spec := providerSpec{id: "host", price: "{input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15}", mapping: mapping}
	doc := resources(url, noExploration, spec)
	doc = strings.Replace(doc, "id: host\nprotocol: openai", "id: host\nprotocol: "+protocol, 1)
	doc = strings.Replace(doc, "/host/v1", "/host"+base, 1)
	return strings.Replace(doc, "upstream: up-host", "upstream: "+upstream, 1)
}

// Azure, from the resource's base URL with a version of the API to the event.
func TestChatAndMessagesToAzure(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("host", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/host/openai/deployments/my-gpt/chat/completions" || r.URL.RawQuery != "api-version=2025-04-01-preview" || !strings.HasPrefix(r.Header.Get("Api-Key"), "sk-") || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"gpt","prompt_filter_results":[],"choices":[{"index":0,"message":{"role":"assistant","content":"hello from azure"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}`)
	})
	n := start(t, hosted(u.URL, "azure", "?api-version=2025-04-01-preview", "my-gpt", ""), nil).ready()
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello from azure" || !strings.Contains(r.body, `"prompt_filter_results":[]`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.messages(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`); r.status != 200 || r.at("content.0.text") != "hello from azure" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, e := range n.events(2) {
		// By hand: (10 - 4) x 3, 4 x 0.3, 5 x 15 USD a million.
		if e.Provider != "host" || e.CostInputNanoUSD != 18_000 || e.CostCachedNanoUSD != 1_200 || e.CostOutputNanoUSD != 75_000 || e.CostNanoUSD != 94_200 {
			t.Errorf("%s: costs %d %d %d %d", e.Provider, e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostOutputNanoUSD, e.CostNanoUSD)
		}
	}
}

// Claude on Vertex, in a place of its own: Messages pass through, chat is translated.
func TestMessagesAndChatToVertex(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("host", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/host/v1/projects/p/locations/europe-west4/publishers/anthropic/models/claude-sonnet-4-5:rawPredict" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer sk-") ||
			!strings.Contains(string(body), `"anthropic_version":"vertex-2023-10-16"`) || strings.Contains(string(body), `"model"`) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"hello from vertex"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":6,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":2},"output_tokens":5}}`)
	})
	n := start(t, hosted(u.URL, "vertex", "/v1/projects/p/locations/{region}", "claude-sonnet-4-5", ", regions: [{id: europe-west4}]"), nil).ready()
	if r := n.messages(`{"model":"m","max_tokens":9,"x_new":1,"messages":[{"role":"user","content":"x"}]}`); r.status != 200 || r.at("content.0.text") != "hello from vertex" || r.at("model") != "m" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello from vertex" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, e := range n.events(2) {
		// By hand: 10 x 3, 4 x 0.3, 4 x 3.75 + 2 x 6, 5 x 15 USD a million.
		if e.Region != "europe-west4" || e.CostInputNanoUSD != 30_000 || e.CostCachedNanoUSD != 1_200 || e.CostCacheWriteNanoUSD != 27_000 || e.CostOutputNanoUSD != 75_000 || e.CostNanoUSD != 133_200 {
			t.Errorf("%s: costs %d %d %d %d", e.Region, e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostCacheWriteNanoUSD, e.CostOutputNanoUSD)
		}
	}
}
