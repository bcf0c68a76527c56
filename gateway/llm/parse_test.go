package llm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"turnout/schemas/attempt"
)

func TestParseChatFacts(t *testing.T) {
	f, err := ParseChat([]byte(`{
		"model": "openai/gpt-x", "stream": true, "stream_options": {"include_usage": true},
		"max_tokens": 10, "max_completion_tokens": 2147483647, "n": 2, "temperature": 0.1,
		"messages": [
			{"role": "system", "content": "Hello world"},
			{"role": "user", "content": [
				{"type": "text", "text": "日本\u00e9\ud83d\ude00"},
				{"image_url": {"url": "data:image/png;base64,aG\/v"}, "type": "image_url"},
				{"type": "image_url", "image_url": "u"},
				{"type": "input_audio", "input_audio": {"data": "aGk="}},
				{"type": "file", "file": {}},
				{"type": "video_url", "x": 1}]},
			{"role": "assistant", "content": null, "tool_calls": []},
			{"role": "assistant", "content": "Sure"}],
		"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "web_search_preview"}],
		"tool_choice": {"type": "function", "function": {"name": "f"}},
		"response_format": {"type": "json_schema", "json_schema": {}},
		"reasoning_effort": "high", "service_tier": "flex",
		"user": "u", "session_id": "s", "prompt_cache_key": "p",
		"routing": "price", "free_models_only": true, "no_reasoning": false}`))
	if err != nil {
		t.Fatal(err)
	}
	tools := `[{"type": "function", "function": {"name": "f"}}, {"type": "web_search_preview"}]`
	want := Facts{Model: "openai/gpt-x", Stream: true, IncludeUsage: true, MaxTokens: 2147483647, N: 2,
		Tools: true, ToolChoice: "named", ResponseFormat: "json_schema", ReasoningEffort: "high", ServiceTier: "flex",
		WebSearch: true, AssistantPrefill: true, Audio: true, Documents: true, Images: 2, Own: []string{"vision"}, Linked: []string{"vision"},
		TextChars: 11 + 4 + 4, ToolChars: int64(len(tools)),
		SessionID: "s", PromptCacheKey: "p", User: "u", Routing: "price", FreeModelsOnly: true}
	got := *f
	if want := (FieldIndex{Model: 1, StreamOptions: 3, ToolChoice: 10, Routing: 17, FreeModelsOnly: 18, NoReasoning: 19}); got.At != want {
		t.Errorf("at %+v, want %+v", got.At, want)
	}
	got.Fields, got.At = nil, FieldIndex{}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}
	if len(f.Fields) != 19 {
		t.Errorf("%d fields", len(f.Fields))
	}
}

func TestPromptTokens(t *testing.T) {
	for _, tc := range []struct{ text, tools, want int64 }{
		{0, 0, 0}, {1, 0, 1}, {2, 0, 1}, {5, 0, 1}, {6, 0, 2}, {11, 0, 3}, {11, 6, 5}, {20000, 0, 5000},
	} {
		if got := (&Facts{TextChars: tc.text, ToolChars: tc.tools}).PromptTokens(); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
	f, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"Hello world"}]}`))
	if err != nil || f.PromptTokens() != 3 {
		t.Fatalf("%v %v", f, err)
	}
}

func TestNullsAreAbsent(t *testing.T) {
	f, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":null}],"stream":null,"stream_options":null,
		"max_tokens":null,"max_completion_tokens":null,"n":null,"tools":null,"tool_choice":null,"response_format":null,"reasoning_effort":null,
		"user":null,"session_id":null,"prompt_cache_key":null,"routing":null,"free_models_only":null,"no_reasoning":null,"service_tier":null,"web_search_options":null,"audio":null}`))
	if err != nil {
		t.Fatal(err)
	}
	f.Fields, f.At = nil, FieldIndex{}
	if got, _ := json.Marshal(f); string(got) != string(must(json.Marshal(Facts{Model: "m", N: 1}))) {
		t.Fatalf("%s", got)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestParseChatRefuses(t *testing.T) {
	ok := `"model":"m","messages":[{"role":"user","content":"x"}]`
	for _, tc := range []struct{ body, code, param, message string }{
		{``, "invalid_json", "", "unexpected end of JSON at byte 0"},
		{`{"model":"m"`, "invalid_json", "", "unexpected end of JSON at byte 12"},
		{`{"model":"m"} x`, "invalid_json", "", "text after the JSON value at byte 14"},
		{`[]`, "invalid_json", "", "must be a JSON object, not an array"},
		{`{` + ok + `,"model":"n"}`, "invalid_json", "", "a key that stands twice"},
		{`{` + ok + `,"temperature":1,"temperature":2}`, "invalid_json", "", "a key that stands twice"},
		{`{"model":"m","messages":[{"role":"user","role":"x"}]}`, "invalid_json", "", "a key that stands twice"},
		{"{" + ok + ",\"x\":\"\xff\"}", "invalid_json", "", "no UTF-8 at byte"},
		{`{"model":5,"messages":[],}`, "invalid_json", "", "expected a key"},
		{`{` + ok + `,"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, "invalid_json", "", "128 levels"},
		{`{"messages":[{"role":"user","content":"x"}]}`, "invalid_value", "model", "is missing"},
		{`{"model":"m"}`, "invalid_value", "messages", "is missing"},
		{`{"model":5,"messages":[]}`, "invalid_value", "model", "must be a string, not 5"},
		{`{"model":"","messages":[{"role":"user"}]}`, "invalid_value", "model", "must name a model, not an empty string"},
		{`{"model":null,"messages":[{"role":"user"}]}`, "invalid_value", "model", "must be a string, not null"},
		{`{"model":"m","messages":"hi"}`, "invalid_value", "messages", "must be an array of messages, not a string"},
		{`{"model":"m","messages":[]}`, "invalid_value", "messages", "at least one message, not an empty array"},
		{`{"model":"m","messages":["x"]}`, "invalid_value", "messages[0]", "must be an object, not a string"},
		{`{"model":"m","messages":[{"role":"user","content":"x"},{"content":"x"}]}`, "invalid_value", "messages[1].role", "is missing"},
		{`{"model":"m","messages":[{"role":5}]}`, "invalid_value", "messages[0].role", "must be a string, not 5"},
		{`{"model":"m","messages":[{"role":"user","content":{}}]}`, "invalid_value", "messages[0].content", "not an object"},
		{`{"model":"m","messages":[{"role":"assistant"},{"role":"assistant"},{"role":"user","content":[{"type":7}]}]}`, "invalid_value", "messages[2].content[0].type", "must be a string, not 7"},
		{`{"model":"m","messages":[{"role":"user","content":[{"text":"x"}]}]}`, "invalid_value", "messages[0].content[0].type", "is missing"},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":[]}]}]}`, "invalid_value", "messages[0].content[0].text", "not an empty array"},
		{`{"model":"m","messages":[{"role":"user","content":["x"]}]}`, "invalid_value", "messages[0].content[0]", "must be an object with a type"},
		{`{` + ok + `,"stream":"yes"}`, "invalid_value", "stream", "must be true or false, not a string"},
		{`{` + ok + `,"stream_options":true}`, "invalid_value", "stream_options", "must be an object, not true"},
		{`{` + ok + `,"stream_options":{"include_usage":1}}`, "invalid_value", "stream_options.include_usage", "must be true or false, not 1"},
		{`{` + ok + `,"max_tokens":0}`, "invalid_value", "max_tokens", "must be an integer from 1 to 2147483647, not 0"},
		{`{` + ok + `,"max_tokens":-1}`, "invalid_value", "max_tokens", "not -1"},
		{`{` + ok + `,"max_completion_tokens":2147483648}`, "invalid_value", "max_completion_tokens", "not 2147483648"},
		{`{` + ok + `,"max_tokens":1.5}`, "invalid_value", "max_tokens", "not 1.5"},
		{`{` + ok + `,"max_tokens":"5"}`, "invalid_value", "max_tokens", "not a string"},
		{`{` + ok + `,"n":0}`, "invalid_value", "n", "must be an integer from 1"},
		{`{` + ok + `,"tools":{}}`, "invalid_value", "tools", "must be an array, not an object"},
		{`{` + ok + `,"tools":[{"type":"function","function":{"name":"f"}},5]}`, "invalid_value", "tools[1]", "must be an object, not 5"},
		{`{` + ok + `,"tools":[{"function":{}}]}`, "invalid_value", "tools[0].type", "is missing"},
		{`{` + ok + `,"tools":[{"type":"function"}]}`, "invalid_value", "tools[0].function", "is missing"},
		{`{` + ok + `,"tools":[{"function":"f","type":"function"}]}`, "invalid_value", "tools[0].function", "must be an object, not a string"},
		{`{` + ok + `,"tool_choice":[]}`, "invalid_value", "tool_choice", "must be a string or an object"},
		{`{` + ok + `,"response_format":"json"}`, "invalid_value", "response_format", "must be an object, not a string"},
		{`{` + ok + `,"response_format":{}}`, "invalid_value", "response_format.type", "is missing"},
		{`{` + ok + `,"response_format":{"type":1}}`, "invalid_value", "response_format.type", "must be a string, not 1"},
		{`{` + ok + `,"reasoning_effort":3}`, "invalid_value", "reasoning_effort", "must be a string, not 3"},
		{`{` + ok + `,"user":{}}`, "invalid_value", "user", "must be a string, not an object"},
		{`{` + ok + `,"session_id":1}`, "invalid_value", "session_id", "must be a string"},
		{`{` + ok + `,"prompt_cache_key":1}`, "invalid_value", "prompt_cache_key", "must be a string"},
		{`{` + ok + `,"routing":"best"}`, "invalid_value", "routing", `must be auto, price, throughput or latency, not "best"`},
		{`{` + ok + `,"routing":"` + strings.Repeat("x", 50) + `"}`, "invalid_value", "routing", `not "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."`},
		{`{` + ok + `,"routing":5}`, "invalid_value", "routing", "must be a string, not 5"},
		{`{` + ok + `,"free_models_only":"x"}`, "invalid_value", "free_models_only", "must be true or false"},
	} {
		_, err := ParseChat([]byte(tc.body))
		if err == nil || err.Status != 400 || err.Code != tc.code || err.Param != tc.param || !strings.Contains(err.Message, tc.message) {
			t.Errorf("%.80s:\n got %+v\nwant %s %s %q", tc.body, err, tc.code, tc.param, tc.message)
		}
	}
}

func TestUnknownFieldsAndWordsPass(t *testing.T) {
	for _, extra := range []string{`"temperature":"hot"`, `"stop":{}`, `"tool_choice":"any"`, `"response_format":{"type":"grammar"}`, `"reasoning_effort":"galactic"`, `"tools":[]`, `"tools":[{"type":"custom"}]`, `"tool_choice":{"type":"allowed_tools"}`} {
		if _, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"x","x":1}],` + extra + `}`)); err != nil {
			t.Errorf("%s: %v", extra, err)
		}
	}
}

func TestSessionKey(t *testing.T) {
	body := &Facts{SessionID: " body ", PromptCacheKey: "cache", User: "user"}
	for _, tc := range []struct {
		headers string
		facts   *Facts
		user    bool
		want    string
	}{
		{"", body, true, "body"},
		{"", &Facts{PromptCacheKey: "cache", User: "user"}, true, "cache"},
		{"", &Facts{User: "user"}, true, "user"},
		{"", &Facts{User: "user"}, false, ""},
		{"x-client-request-id:r", &Facts{}, true, ""},
		{"x-session-id:  |session-id:b", body, true, "b"},
		{"session_id:c|session-id:b", body, true, "c"},
		{"x-session-affinity:d|session_id:c", body, true, "d"},
		{"x-session-id:a|x-session-affinity:d", body, true, "a"},
		{"conversation_id:f|thread-id:e", body, true, "e"},
		{"conversation_id:f", body, true, "f"},
		{"x-opencode-session:g|thread-id:e", body, true, "g"},
		{"x-claude-code-session-id:h|x-opencode-session:g", body, true, "h"},
	} {
		h := http.Header{}
		for kv := range strings.SplitSeq(tc.headers, "|") {
			if k, v, ok := strings.Cut(kv, ":"); ok {
				h.Set(k, v)
			}
		}
		if got := SessionKey(h.Get, tc.facts, tc.user); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.headers, got, tc.want)
		}
	}
}

func TestCodingClient(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"User-Agent", "claude-cli/2.1.332 (external, cli)", "claude-code"},
		{"User-Agent", "codex_cli_rs/0.171.0 (Debian 12; x86_64)", "codex"},
		{"User-Agent", "codex_exec/0.171.0", "codex"},
		{"User-Agent", "opencode/1.18.33 ai-sdk/provider-utils/3.0", "opencode"},
		{"User-Agent", "RooCode/3.2", "roo-code"},
		{"User-Agent", "Cline/3.1", "cline"},
		{"User-Agent", "Kilo-Code/4", "kilo-code"},
		{"User-Agent", "Cursor/1.0", "cursor"},
		{"User-Agent", "aider/0.80", "aider"},
		{"User-Agent", "Continue/1.0", "continue"},
		{"User-Agent", "windsurf/1", "windsurf"},
		{"User-Agent", "Zed/0.190", "zed"},
		{"User-Agent", "GitHubCopilotChat/0.31", "github-copilot"},
		{"User-Agent", "Charm-Crush/0.1", "crush"},
		{"User-Agent", "KimiCLI/1", "kimi-code"},
		{"User-Agent", "QwenCode/0.1 (linux)", "qwen-code"},
		{"User-Agent", "factory-cli/1", "factory-droid"},
		{"User-Agent", "goose/1.0", "goose"},
		{"User-Agent", "GeminiCLI/0.5", "gemini-cli"},
		{"X-Source", "Codex", "codex"},
		{"X-Title", "Roo Code", "roo-code"},
		{"X-Title", "Kilo Code", "kilo-code"},
		{"Referer", "https://cline.bot/", "cline"},
		{"User-Agent", "curl/8.5.0", ""},
		{"User-Agent", "OpenAI/Python 1.5", ""},
		{"User-Agent", "Mozilla/5.0 (X11) Chrome/120 Safari/537", ""},
		{"User-Agent", "incline/1.0 mongoose/2 precursor/1", ""},
		{"X-Session-Id", "claude-code", ""},
	} {
		h := http.Header{}
		h.Set(tc.name, tc.value)
		if got := CodingClient(h.Get); got != tc.want {
			t.Errorf("%s %q: %q, want %q", tc.name, tc.value, got, tc.want)
		}
	}
}

func TestOpenAIUsage(t *testing.T) {
	for _, tc := range []struct {
		raw     string
		context int64
		want    Usage
	}{
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, 0, Usage{InputTokens: 10, OutputTokens: 5, Source: "reported"}},
		{`{"prompt_tokens":0,"completion_tokens":0}`, 0, Usage{Source: "reported"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":2,"cache_write_tokens":3},"completion_tokens_details":{"reasoning_tokens":2,"audio_tokens":1}}`, 0,
			Usage{InputTokens: 10, CachedInputTokens: 4, CacheWriteTokens: 3, AudioInputTokens: 2, OutputTokens: 5, ReasoningTokens: 2, AudioOutputTokens: 1, Source: "reported"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`, 0, Usage{InputTokens: 10, OutputTokens: 5, Source: "reported"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}`, 0, Usage{InputTokens: 10, CachedInputTokens: 8, OutputTokens: 5, Source: "reported"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"cached_tokens":7}`, 0, Usage{InputTokens: 10, CachedInputTokens: 7, OutputTokens: 5, Source: "reported"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}`, 0, Usage{InputTokens: 10, OutputTokens: 25, ReasoningTokens: 20, Source: "reported"}},
		{`{"prompt_tokens":-1,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_negative"}},
		{`{"prompt_tokens":1,"completion_tokens":-0}`, 0, Usage{Source: "missing", Flag: "usage_negative"}},
		{`{"prompt_tokens":1.5,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_fractional"}},
		{`{"prompt_tokens":1e3,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_fractional"}},
		{`{"prompt_tokens":null,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_null"}},
		{`{"prompt_tokens":"7","completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_string"}},
		{`{"prompt_tokens":[],"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_not_a_number"}},
		{`{"prompt_tokens":10000001,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_absurd"}},
		{`{"prompt_tokens":99999999999999999999999,"completion_tokens":5}`, 0, Usage{Source: "missing", Flag: "usage_absurd"}},
		{`{"prompt_tokens":2000,"completion_tokens":5}`, 1000, Usage{InputTokens: 2000, OutputTokens: 5, Source: "reported"}},
		{`{"prompt_tokens":2001,"completion_tokens":5}`, 1000, Usage{Source: "missing", Flag: "usage_absurd"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":11}}`, 0, Usage{InputTokens: 10, CachedInputTokens: 10, OutputTokens: 5, Source: "reported", Flag: "cached_above_input"}},
		{`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-3}}`, 0, Usage{InputTokens: 10, OutputTokens: 5, Source: "reported", Flag: "detail_negative"}},
		{`{}`, 0, Usage{Source: "missing"}},
		{`"x"`, 0, Usage{Source: "missing", Flag: "usage_not_an_object"}},
		{`{"prompt_tokens":1`, 0, Usage{Source: "missing", Flag: "usage_malformed"}},
	} {
		if got := OpenAIUsage([]byte(tc.raw), tc.context); got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.raw, got, tc.want)
		}
	}
}

// Whatever the upstream sends, no count is negative or above the limit, and parts fit their wholes.
func FuzzOpenAIUsage(f *testing.F) {
	f.Add([]byte(`{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}`))
	f.Add([]byte(`{"prompt_tokens":-1e99,"completion_tokens":{},"total_tokens":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := OpenAIUsage(raw, 1000)
		if u.Source != attempt.UsageReported && u.Source != attempt.UsageMissing {
			t.Fatalf("source %q", u.Source)
		}
		for _, n := range []int64{u.InputTokens, u.CachedInputTokens, u.CacheWriteTokens, u.ReasoningTokens, u.ImageInputTokens, u.AudioInputTokens, u.AudioOutputTokens} {
			if n < 0 || n > 2000 {
				t.Fatalf("%s: %+v", raw, u)
			}
		}
		if u.OutputTokens < 0 || u.OutputTokens > 4000 || u.CachedInputTokens+u.CacheWriteTokens > u.InputTokens || u.ReasoningTokens > u.OutputTokens {
			t.Fatalf("%s: %+v", raw, u)
		}
	})
}

// The parser accepts only what encoding/json accepts, and never panics.
func FuzzParseChat(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tools":[{"type":"function","function":{}}]}`))
	f.Add([]byte(`{"model":5,"messages":[{"role":[{}]}],"stream_options":{"include_usage":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		facts, err := ParseChat(body)
		if (facts == nil) == (err == nil) {
			t.Fatalf("%v %v", facts, err)
		}
		if err == nil && !json.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
		if err != nil && err.Code != "invalid_json" && !json.Valid(body) {
			t.Fatalf("%q: %v for what is no JSON", body, err)
		}
		if err == nil {
			for _, field := range facts.Fields {
				if field.Key >= field.Value || field.Value >= field.End || field.End > len(body) || !json.Valid(body[field.Value:field.End]) {
					t.Fatalf("%q: field %+v", body, field)
				}
			}
		}
	})
}

func BenchmarkParseChat(b *testing.B) {
	for name, size := range map[string]int{"1K": 1 << 10, "40K": 40 << 10} {
		body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("some words \\n", size/12) + `"}],"temperature":1}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseChat(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
