package gateway

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnout/schemas/attempt"
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

// An open model on Vertex, in a multi-region: chat passes through, Messages are translated.
func TestChatAndMessagesToOpenModelsOnVertex(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("host", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/host/v1/projects/p/locations/eu/endpoints/openapi/chat/completions" || !strings.Contains(string(body), `"model":"deepseek-ai/deepseek-v3.2-maas"`) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"deepseek","choices":[{"index":0,"message":{"role":"assistant","content":"hello from the garden"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
	})
	n := start(t, hosted(u.URL, "vertex", "/v1/projects/p/locations/{region}", "deepseek-ai/deepseek-v3.2-maas", ", regions: [{id: eu}]"), nil).ready()
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello from the garden" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.messages(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`); r.status != 200 || r.at("content.0.text") != "hello from the garden" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, e := range n.events(2) {
		// By hand: 10 x 3, 5 x 15 USD a million.
		if e.Region != "eu" || e.CostNanoUSD != 105_000 {
			t.Errorf("%s: costs %d", e.Region, e.CostNanoUSD)
		}
	}
}

// Service accounts that nothing can be signed with were network errors of the provider, tried for ever.
// Each is refused once, by name, and the request goes on.
func TestUnusableVertexAccountsAreLeftAndNamed(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("host", func(http.ResponseWriter, *http.Request) { t.Error("a call without a token") })
	u.script("dear", answer("hello"))
	doc := resources(u.URL, noExploration, providerSpec{id: "host", keys: 2}, providerSpec{id: "dear", price: "{input: 100, output: 200}"})
	doc = strings.Replace(doc, "id: host\nprotocol: openai", "id: host\nprotocol: vertex", 1)
	for k := range 2 {
		file := filepath.Join(t.TempDir(), "account.json")
		account := fmt.Sprintf(`{"type":"service_account","client_email":"a%d@p.iam.gserviceaccount.com","private_key":"-----BEGIN PRIVATE KEY-----hidden","token_uri":"https://oauth2.googleapis.com/token"}`, k)
		if err := os.WriteFile(file, []byte(account), 0o600); err != nil {
			t.Fatal(err)
		}
		doc = strings.Replace(doc, fmt.Sprintf("env:SECRET_HOST_%d", k), "file:"+file, 1)
	}
	n := start(t, doc, nil).ready()
	for range 2 {
		if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	events := n.events(4)
	for _, e := range events[:2] {
		if e.Provider != "host" || e.Outcome != attempt.GatewayError || e.ErrorType != "gateway_error" || e.StatusCode != 401 || !e.WillRetry {
			t.Errorf("%s: %s %s %d", e.Provider, e.Outcome, e.ErrorType, e.StatusCode)
		}
	}
	if events[2].Provider != "dear" || events[3].Provider != "dear" {
		t.Errorf("%s, %s", events[2].Provider, events[3].Provider)
	}
	logs := n.logs.String()
	if strings.Count(logs, "the service account's private_key cannot be signed with") != 2 || strings.Contains(logs, "hidden") || strings.Contains(logs, "gserviceaccount") {
		t.Errorf("the log: %s", logs)
	}
}

// A place that Google does not serve is no mistake of the client's; the event says that it is the place.
func TestPlaceThatGeminiDoesNotServe(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("host", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`)
	})
	u.script("dear", answer("hello"))
	doc := resources(u.URL, noExploration, providerSpec{id: "host"}, providerSpec{id: "dear", price: "{input: 100, output: 200}"})
	doc = strings.Replace(doc, "id: host\nprotocol: openai", "id: host\nprotocol: gemini", 1)
	n := start(t, doc, nil).ready()
	if r := n.chat(chatBody); r.status != 200 || r.at("choices.0.message.content") != "hello" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if e := n.events(2)[0]; e.Outcome != attempt.GatewayError || !e.GeoBlocked || e.StatusCode != 400 {
		t.Errorf("%s %d, geo_blocked %v", e.Outcome, e.StatusCode, e.GeoBlocked)
	}
}

// A service account's token that the upstream echoes reaches neither the client nor the log nor an event,
// as its secret would not.
func TestVertexTokenIsNobodysToSee(t *testing.T) {
	t.Parallel()
	const token = "ya29.c.nobody-may-see-this"
	u := newUpstreams(t)
	u.script("tokens", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600}`, token)
	})
	u.script("host", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":"I cannot read %s"}}`, r.Header.Get("Authorization"))
	})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "token_uri": u.URL + "/tokens/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	doc := hosted(u.URL, "vertex", "/v1/projects/p/locations/{region}", "claude-sonnet-4-5", ", regions: [{id: europe-west4}]")
	n := start(t, strings.Replace(doc, "env:SECRET_HOST_0", "file:"+file, 1), nil).ready()
	r := n.messages(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`)
	if r.status != 400 || !strings.Contains(r.body, "I cannot read Bearer ***") || strings.Contains(r.body, "ya29") {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, e := range n.events(1) {
		if text := fmt.Sprintf("%+v", *e); e.Outcome != attempt.ClientError || strings.Contains(text, "ya29") {
			t.Errorf("%s", text)
		}
	}
	if strings.Contains(n.logs.String(), "ya29") {
		t.Errorf("the log: %s", n.logs.String())
	}
}
