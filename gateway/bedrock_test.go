package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// amazonFrame writes one message of an event stream.
func amazonFrame(w io.Writer, kind, name, payload string) {
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	_ = eventstream.NewEncoder().Encode(w, m)
}

// amazon serves Converse as it is asked.
func amazon(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path, streams := strings.CutSuffix(r.URL.Path, "-stream")
	if path != "/bed/eu-central-1/model/up-bed/converse" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer sk-") || !json.Valid(body) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	const usage = `"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":25,"cacheReadInputTokens":4,"cacheWriteInputTokens":6,"cacheDetails":[{"ttl":"1h","inputTokens":2},{"ttl":"5m","inputTokens":4}]}`
	if streams {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		amazonFrame(w, "event", "messageStart", `{"role":"assistant"}`)
		amazonFrame(w, "event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hello from bed"}}`)
		amazonFrame(w, "event", "messageStop", `{"stopReason":"end_turn"}`)
		amazonFrame(w, "event", "metadata", `{`+usage+`}`)
		return
	}
	block, reason := `{"text":"hello from bed"}`, "end_turn"
	if strings.Contains(string(body), "toolSpec") {
		block, reason = `{"toolUse":{"toolUseId":"c1","name":"weather","input":{"city":"Brno"}}}`, "tool_use"
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"output":{"message":{"role":"assistant","content":[`+block+`]}},"stopReason":"`+reason+`",`+usage+`}`)
}

// bedrockAt are resources with Bedrock in one region, and others beside it.
func bedrockAt(url string, others ...providerSpec) string {
	bed := providerSpec{id: "bed", price: "{input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15}", mapping: ", regions: [{id: eu-central-1}]"}
	doc := resources(url, noExploration, append([]providerSpec{bed}, others...)...)
	doc = strings.Replace(doc, "id: bed\nprotocol: openai", "id: bed\nprotocol: bedrock", 1)
	return strings.Replace(doc, "/bed/v1", "/bed/{region}", 1)
}

func TestEverySurfaceToBedrock(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("bed", amazon)
	n := start(t, bedrockAt(u.URL), nil).ready()
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello from bed" || r.at("usage.prompt_tokens") != 20.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.chat(streamBody); !strings.Contains(r.body, `"content":"hello from bed"`) || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Errorf("%s", r.body)
	}
	tools := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"weather","input_schema":{"type":"object"}}]}`
	if r := n.messages(tools); r.status != 200 || r.at("content.0.input.city") != "Brno" || r.at("stop_reason") != "tool_use" || r.at("usage.input_tokens") != 10.0 || r.at("usage.cache_creation_input_tokens") != 6.0 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.responses(`{"model":"m","input":"x","stream":true}`); !strings.Contains(r.body, "event: response.completed\n") {
		t.Errorf("%s", r.body)
	}
	for _, e := range n.events(4) {
		if e.Region != "eu-central-1" || e.InputTokens != 20 || e.CachedInputTokens != 4 || e.CacheWriteTokens != 4 || e.CacheWrite1hTokens != 2 || e.OutputTokens != 5 {
			t.Errorf("%+v", e)
		}
		// By hand: 10 x 3, 4 x 0.3, 4 x 3.75 + 2 x 6, 5 x 15 USD a million.
		if e.CostInputNanoUSD != 30_000 || e.CostCachedNanoUSD != 1_200 || e.CostCacheWriteNanoUSD != 27_000 || e.CostOutputNanoUSD != 75_000 || e.CostNanoUSD != 133_200 {
			t.Errorf("costs %d %d %d %d %d", e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostCacheWriteNanoUSD, e.CostOutputNanoUSD, e.CostNanoUSD)
		}
	}
}

// Converse takes bytes: what stands in a request by its address goes elsewhere, or nowhere.
func TestBedrockTakesNoAddresses(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("bed", amazon)
	image := func(url string) string {
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`
	}
	dear := providerSpec{id: "dear", price: "{input: 100, output: 200}"}
	n := start(t, bedrockAt(u.URL, dear), nil).ready()
	for url, want := range map[string]string{"https://example.com/a.png": "hello from dear", "data:image/png;base64,aGk=": "hello from bed"} {
		if r := n.chat(image(url)); r.status != 200 || r.at("choices.0.message.content") != want {
			t.Errorf("%s: %d %s", url, r.status, r.body)
		}
	}
	n = start(t, bedrockAt(u.URL), nil).ready()
	if r := n.chat(image("https://example.com/a.png")); r.status != 400 || r.at("error.code") != "no_provider_available" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// An exception before the first output is a failed attempt with the status that it means.
func TestBedrockExceptionInStream(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("bed", func(w http.ResponseWriter, _ *http.Request) {
		amazonFrame(w, "event", "messageStart", `{"role":"assistant"}`)
		amazonFrame(w, "exception", "throttlingException", `{"message":"Too many tokens, please wait before trying again."}`)
	})
	u.script("dear", func(w http.ResponseWriter, _ *http.Request) { chunks(w, "hello", "stop", true) })
	n := start(t, bedrockAt(u.URL, providerSpec{id: "dear", price: "{input: 100, output: 200}"}), nil).ready()
	if r := n.chat(streamBody); r.status != 200 || !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	events := n.events(2)
	if e := events[0]; e.Provider != "bed" || e.StatusCode != 429 || e.ErrorType != "rate_limited" || !e.WillRetry {
		t.Errorf("%+v", e)
	}
	if events[1].Provider != "dear" {
		t.Errorf("%+v", events[1])
	}
}

// Reasoning that Bedrock signed is replayed to it alone, whether it came as a stream or not.
func TestBedrockReasoningIsBound(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, bedrockAt(u.URL, providerSpec{id: "dear", price: "{input: 100, output: 200}"}), nil).ready()
	for i, stream := range []string{"", `"stream":true,`} {
		signature := []string{"c2lnLXBsYWlu", "c2lnLXN0cmVhbQ=="}[i]
		u.script("bed", func(w http.ResponseWriter, _ *http.Request) {
			if stream == "" {
				_, _ = io.WriteString(w, `{"output":{"message":{"content":[{"reasoningContent":{"reasoningText":{"text":"Hm","signature":"`+signature+`"}}},{"text":"Hello"}]}},"stopReason":"end_turn"}`)
				return
			}
			amazonFrame(w, "event", "messageStart", `{"role":"assistant"}`)
			amazonFrame(w, "event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Hm"}}}`)
			amazonFrame(w, "event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"`+signature+`"}}}`)
			amazonFrame(w, "event", "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"Hello"}}`)
			amazonFrame(w, "event", "messageStop", `{"stopReason":"end_turn"}`)
		})
		if r := n.messages(`{"model":"m","max_tokens":9,` + stream + `"messages":[{"role":"user","content":"x"}]}`); r.status != 200 || !strings.Contains(r.body, signature) {
			t.Fatalf("%d %s", r.status, r.body)
		}
		u.script("bed", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		r := n.messages(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"` + signature + `"},{"type":"text","text":"Hello"}]},{"role":"user","content":"y"}]}`)
		if r.status != 503 || !strings.Contains(r.body, "only bed can read") || len(u.called("dear")) != 0 {
			t.Errorf("%q: %d %s", stream, r.status, r.body)
		}
		n.heal("bed")
	}
}
