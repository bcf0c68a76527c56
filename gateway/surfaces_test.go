package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

// mixed are resources with an upstream for each protocol: alpha speaks chat, ant Messages. All serve
// the model m; e makes embeddings.
func mixed(base string) string {
	doc := resources(base, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "ant"})
	doc = strings.Replace(doc, "id: ant\nprotocol: openai", "id: ant\nprotocol: anthropic", 1)
	return doc + "---\nkind: model\nid: e\noutput: [embedding]\nmappings:\n  - {provider: alpha, upstream: up-e, price: {input: 1}}\n  - {provider: ant, upstream: up-e, price: {input: 1}}\n"
}

// claude serves Messages as it is asked: a tool call where there are tools, else a text.
func claude(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/messages") || r.Header.Get("X-Api-Key") == "" || r.Header.Get("Anthropic-Version") == "" {
			http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"`+r.URL.Path+`"}}`, http.StatusNotFound)
			return
		}
		var q struct {
			Stream bool
			Tools  []struct{ Name string }
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		const usage = `{"input_tokens":10,"cache_read_input_tokens":30,"cache_creation_input_tokens":4,"output_tokens":5}`
		block, delta, reason := `{"type":"text","text":""}`, fmt.Sprintf(`{"type":"text_delta","text":%q}`, text), "end_turn"
		whole := fmt.Sprintf(`{"type":"text","text":%q}`, text)
		if len(q.Tools) > 0 {
			reason = "tool_use"
			block = fmt.Sprintf(`{"type":"tool_use","id":"toolu_1","name":%q,"input":{}}`, q.Tools[0].Name)
			delta = `{"type":"input_json_delta","partial_json":"{\"city\":\"Brno\"}"}`
			whole = fmt.Sprintf(`{"type":"tool_use","id":"toolu_1","name":%q,"input":{"city":"Brno"}}`, q.Tools[0].Name)
		}
		if !q.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[%s],"stop_reason":%q,"stop_sequence":null,"usage":%s}`, whole, reason, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"stop_sequence":null,"usage":` + usage + `}}`,
			`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
			`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
			`{"type":"content_block_stop","index":0}`,
			fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":%s}`, reason, usage),
			`{"type":"message_stop"}`,
		} {
			var kind struct{ Type string }
			_ = json.Unmarshal([]byte(e), &kind)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, e)
			w.(http.Flusher).Flush()
		}
	}
}

func (n *node) messages(body string, header ...string) reply {
	n.t.Helper()
	return n.do("POST", n.url+"/v1/messages?beta=true", body, header...)
}

const messagesBody = `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hello world"}]}`

func asking(model, extra string) string {
	return strings.Replace(messagesBody, `"model":"m"`, `"model":"`+model+`"`+extra, 1)
}

func TestMessagesToEveryProtocol(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("ant", claude("hello from ant"))
	n := start(t, mixed(u.URL), nil).ready()
	for _, p := range []string{"alpha", "ant"} {
		r := n.messages(asking(p+":m", ""))
		if r.status != 200 || r.at("content.0.text") != "hello from "+p || r.at("model") != "m" || r.at("stop_reason") != "end_turn" || r.at("type") != "message" {
			t.Errorf("%s: %d %s", p, r.status, r.body)
		}
		if r.at("metadata") != nil || r.at("turnout.used_provider") != p || r.header.Get("X-Turnout-Provider") != p {
			t.Errorf("%s: metadata %s", p, r.body)
		}
		r = n.messages(asking(p+":m", `,"stream":true`))
		if r.status != 200 || !strings.HasPrefix(r.body, "event: message_start\n") || !strings.HasSuffix(r.body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") ||
			!strings.Contains(r.body, `"turnout":{"request_id"`) || strings.Contains(r.body, `"metadata"`) {
			t.Errorf("%s: %s", p, r.body)
		}
		r = n.messages(asking(p+":m", ""), "X-Turnout-Metadata", "off", "X-Api-Key", token, "Authorization", "")
		if r.status != 200 || r.at("turnout") != nil {
			t.Errorf("%s: %d %s", p, r.status, r.body)
		}
	}
	events := n.events(6)
	balanced(t, u, events)
	for _, e := range events {
		want := [5]int64{10, 0, 0, 5, 20_000}
		if e.Provider == "ant" { // 10 + 30 cached + 4 written at 1, all at the price of input, and 5 at 2
			want = [5]int64{44, 30, 4, 5, 54_000}
		}
		if got := [5]int64{e.InputTokens, e.CachedInputTokens, e.CacheWriteTokens, e.OutputTokens, e.CostNanoUSD}; got != want || e.Endpoint != attempt.EndpointMessages || e.UsageSource != attempt.UsageReported {
			t.Errorf("%s: %v, want %v (%s)", e.Provider, got, want, e.Endpoint)
		}
	}
}

func TestChatToAnthropic(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("ant", claude("hello there"))
	n := start(t, mixed(u.URL), nil).ready()
	body := strings.Replace(chatBody, `"m"`, `"ant:m","seed":7,"made_up":1`, 1)
	r := n.chat(body)
	if r.status != 200 || r.at("choices.0.message.content") != "hello there" || r.at("object") != "chat.completion" || r.at("usage.prompt_tokens") != 44.0 ||
		r.at("metadata.used_provider") != "ant" || r.at("turnout.used_provider") != "ant" {
		t.Errorf("%d %s", r.status, r.body)
	}
	r = n.chat(strings.Replace(body, `"seed"`, `"stream":true,"seed"`, 1))
	if !strings.HasSuffix(r.body, "data: [DONE]\n\n") || !strings.Contains(r.body, `"content":"hello there"`) || strings.Contains(r.body, `"usage"`) || !strings.Contains(r.body, `"metadata":{"request_id"`) {
		t.Errorf("%s", r.body)
	}
	events := n.events(2)
	balanced(t, u, events)
	for _, e := range events {
		if got := strings.Join(e.StrippedParameters, " "); got != "made_up seed" {
			t.Errorf("stripped %q", got)
		}
	}
	// What is too malformed to be translated is refused without a call.
	broken := `{"model":"ant:m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`
	if r := n.chat(broken); r.status != 400 || r.at("error.param") != "messages[0].content[0]" {
		t.Errorf("%d %s", r.status, r.body)
	}
	n.events(2)
	// What cannot be said excludes the mapping.
	for _, extra := range []string{`,"n":2`, `,"response_format":{"type":"json_object"}`, `,"tools":[{"type":"custom","custom":{"name":"x"}}]`} {
		r := n.chat(strings.Replace(chatBody, `"m"`, `"m"`+extra, 1))
		if r.status != 200 || r.at("metadata.used_provider") != "alpha" {
			t.Errorf("%s: %d %s", extra, r.status, r.body)
		}
		if r = n.chat(strings.Replace(chatBody, `"m"`, `"ant:m"`+extra, 1)); r.status != 400 || r.at("error.code") != "no_provider_available" {
			t.Errorf("%s: %d %s", extra, r.status, r.body)
		}
	}
}

func TestMessagesErrorsAreAnthropics(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("ant", claude("x"))
	n := start(t, mixed(u.URL), nil).ready()
	for _, tc := range []struct {
		name, body string
		header     []string
		status     int
		kind, text string
	}{
		{"no limit", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, nil, 400, "invalid_request_error", "max_tokens: is missing"},
		{"wrong role", `{"model":"m","max_tokens":1,"messages":[{"role":"tool","content":"x"}]}`, nil, 400, "invalid_request_error", "messages[0].role"},
		{"orphan result", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`, nil, 400, "invalid_request_error", "messages[0].content[0].tool_use_id"},
		{"no JSON", `{"model":`, nil, 400, "invalid_request_error", "byte 9"},
		{"unknown model", asking("nope", ""), nil, 400, "invalid_request_error", "nope"},
		{"bad key", messagesBody, []string{"Authorization", "Bearer to-nobody"}, 401, "authentication_error", "not known"},
		{"embeddings model", asking("e", ""), nil, 400, "invalid_request_error", "makes embeddings"},
		{"media type", messagesBody, []string{"Content-Type", "text/plain"}, 415, "request_too_large", "application/json"},
	} {
		r := n.messages(tc.body, tc.header...)
		text, _ := r.at("error.message").(string)
		if r.status != tc.status || r.at("type") != "error" || r.at("error.type") != tc.kind || !strings.Contains(text, tc.text) || r.at("request_id") != r.header.Get("X-Request-Id") {
			t.Errorf("%s: %d %s", tc.name, r.status, r.body)
		}
	}
	if r := n.do("GET", n.url+"/v1/messages", ""); r.status != 405 || r.at("type") != "error" {
		t.Errorf("%d %s", r.status, r.body)
	}

	down := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(529)
		fmt.Fprint(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	}
	u.script("ant", down)
	u.script("alpha", status(500, "no"))
	r := n.messages(messagesBody, "X-No-Fallback", "true")
	if r.status != 502 || r.at("error.type") != "api_error" || r.at("turnout.routing.0.status_code") == nil || r.at("metadata") != nil {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestMessagesStreamFails(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("alpha", func(w http.ResponseWriter, _ *http.Request) { chunks(w, "half of it", "", false) })
	n := start(t, mixed(u.URL), func(c *Config) { c.HeartbeatAfter, c.HeartbeatEvery = 50*time.Millisecond, 50*time.Millisecond }).ready()
	r := n.messages(asking("alpha:m", `,"stream":true`))
	at := strings.Index(r.body, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"")
	if at < 0 || strings.Contains(r.body, "message_stop") || !strings.Contains(r.body[at:], `"turnout":{`) {
		t.Errorf("%s", r.body)
	}
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(180 * time.Millisecond)
		answer("late")(w, r)
	})
	r = n.messages(asking("alpha:m", `,"stream":true`))
	if !strings.HasPrefix(r.body, "event: ping\ndata: {\"type\":\"ping\"}\n\n") || !strings.Contains(r.body, "message_stop") {
		t.Errorf("%s", r.body)
	}
	// A content filter's refusal is an answer.
	u.script("alpha", status(400, "blocked by content management policy"))
	for _, extra := range []string{"", `,"stream":true`} {
		r = n.messages(asking("alpha:m", extra))
		if r.status != 200 || !strings.Contains(r.body, `"stop_reason":"refusal"`) || !strings.Contains(r.body, `"turnout":{`) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// Sessions are told by metadata.user_id as Claude Code writes it, and stay with their provider.
func TestMessagesSessions(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.script("ant", claude("x"))
	n := start(t, mixed(u.URL), nil).ready()
	for _, id := range []string{`{\"session_id\":\"s1\"}`, `user_1_account_2_session_s1`, `{\"device_id\":\"d\"}`} {
		if r := n.messages(asking("m", `,"metadata":{"user_id":"`+id+`"}`)); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := n.messages(messagesBody, "X-Claude-Code-Session-Id", "s1"); r.status != 200 {
		t.Fatal(r.body)
	}
	hashes := map[string]int{}
	for _, e := range n.events(4) {
		hashes[e.SessionHash]++
	}
	if len(hashes) != 2 || hashes[""] != 1 {
		t.Errorf("%v", hashes)
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), nil).ready()
	r := n.do("POST", n.url+"/v1/messages/count_tokens?beta=true", `{"model":"m","messages":[{"role":"user","content":"Hello world"}]}`)
	if r.status != 200 || r.body != "{\"input_tokens\":3}\n" {
		t.Errorf("%d %s", r.status, r.body)
	}
	// system 11 and text 5 characters, (16 + 2) / 4 = 4; tools 39 characters, (39 + 2) / 4 = 10; 560 for each of two images
	const whole = `{"model":"m","system":[{"type":"text","text":"Hello world"}],"tools":[{"name":"f","input_schema":{"a":"b"}}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"Hello"},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}`
	if r = n.do("POST", n.url+"/v1/messages/count_tokens", whole); r.status != 200 || r.body != "{\"input_tokens\":1134}\n" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r = n.do("POST", n.url+"/v1/messages/count_tokens", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`); r.status != 400 || r.at("type") != "error" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if len(u.called("")) != 0 {
		t.Error("a provider was asked")
	}
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	const vectors = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":%s}],"model":"up-e","usage":{"prompt_tokens":8,"total_tokens":8}}`
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1/embeddings") {
			w.WriteHeader(404)
			return
		}
		body, _ := io.ReadAll(r.Body)
		vector := `[0.10, -1e-3]`
		if strings.Contains(string(body), `"base64"`) {
			vector = `"zczMPQ=="`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, vectors, vector)
	})
	n := start(t, mixed(u.URL), nil).ready()
	embed := func(body string) reply { return n.do("POST", n.url+"/v1/embeddings", body) }
	r := embed(`{"model":"e","input":["Hello world"],"dimensions":2}`)
	if r.status != 200 || !strings.Contains(r.body, `"embedding":[0.10, -1e-3]`) || r.at("model") != "e" || r.at("turnout.used_provider") != "alpha" || r.at("metadata") != nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r = embed(`{"model":"e","input":"Hello world","encoding_format":"base64","user":"u"}`); r.status != 200 || r.at("data.0.embedding") != "zczMPQ==" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for body, want := range map[string]string{
		`{"model":"m","input":"x"}`:     "makes no embeddings",
		`{"model":"auto","input":"x"}`:  "auto chooses among models that make text",
		`{"model":"ant:e","input":"x"}`: "",
		`{"model":"e","input":[]}`:      "input: must hold at least one text",
	} {
		if r = embed(body); r.status != 400 || !strings.Contains(fmt.Sprint(r.at("error.message")), want) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	events := n.events(2)
	balanced(t, u, events)
	for _, e := range events {
		if e.Endpoint != attempt.EndpointEmbeddings || e.InputTokens != 8 || e.CostNanoUSD != 8000 || e.PromptTokensEstimate != 3 {
			t.Errorf("%+v", e)
		}
	}
}
