package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// factsJSON is what was read, without the offsets.
func factsJSON(t *testing.T, f *Facts, err *APIError) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c := *f
	c.Fields, c.At, c.Unsigned = nil, FieldIndex{}, nil
	out, _ := json.Marshal(c)
	return string(out)
}

func same(t *testing.T, name, got string, want Facts) {
	t.Helper()
	if b, _ := json.Marshal(want); got != string(b) {
		t.Errorf("%s\ngot  %s\nwant %s", name, got, b)
	}
}

func TestParseEmbeddings(t *testing.T) {
	for _, tc := range []struct {
		input  string
		chars  int64
		tokens int64
		prompt int64
	}{
		{`"Hello world"`, 11, 0, 3}, {`["Hello","日本"]`, 7, 0, 2}, {`[1,2,3]`, 0, 3, 3}, {`[[1,2],[3]]`, 0, 3, 3}, {`[""]`, 0, 0, 0},
	} {
		f, err := ParseEmbeddings([]byte(`{"model":"m","input":` + tc.input + `,"encoding_format":"base64","dimensions":8,"user":"u","stream":true,"x":1}`))
		same(t, tc.input, factsJSON(t, f, err), Facts{Model: "m", N: 1, TextChars: tc.chars, Tokens: tc.tokens, Base64: true, User: "u"})
		if f != nil && f.PromptTokens() != tc.prompt {
			t.Errorf("%s: %d tokens", tc.input, f.PromptTokens())
		}
	}
	for body, want := range map[string]string{
		`{"model":"m"}`:                                     "input: is missing",
		`{"input":"x"}`:                                     "model: is missing",
		`{"model":"m","input":""}`:                          "input: must hold text",
		`{"model":"m","input":[]}`:                          "input: must hold at least one text",
		`{"model":"m","input":[[]]}`:                        "input[0]: must hold at least one token id",
		`{"model":"m","input":["a",1]}`:                     "input[1]: must be of the same kind",
		`{"model":"m","input":[-1]}`:                        "input[0]: must be a token id",
		`{"model":"m","input":[1.5]}`:                       "input[0]: must be a token id",
		`{"model":"m","input":{"a":1}}`:                     "input: must be a text",
		`{"model":"m","input":[{}]}`:                        "input[0]: must be a text",
		`{"model":"m","input":null}`:                        "input: must be a text",
		`{"model":"m","input":"x","dimensions":0}`:          "dimensions: must be an integer",
		`{"model":"m","input":"x","encoding_format":"hex"}`: "encoding_format: must be float or base64",
	} {
		refused(t, body, want, ParseEmbeddings)
	}
}

func refused(t *testing.T, body, want string, parse func([]byte) (*Facts, *APIError)) {
	t.Helper()
	f, err := parse([]byte(body))
	if f != nil || err == nil || err.Status != 400 || !strings.HasPrefix(err.Message, want) {
		t.Errorf("%s\ngot  %v\nwant %s", body, err, want)
	}
}

func TestParseMessages(t *testing.T) {
	body := `{"model":"m","max_tokens":100,"stream":true,"system":[{"type":"text","text":"Be kind","cache_control":{"type":"ephemeral"}}],
		"thinking":{"type":"enabled","budget_tokens":2048},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{}}},
		"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s-1\"}"},
		"tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"}],
		"tool_choice":{"type":"any"},
		"messages":[{"role":"user","content":"Hello"},
			{"content":[{"type":"thinking","thinking":"x","signature":"sig"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}],"role":"assistant"},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"done"},
				{"type":"image","source":{"data":"aGk=","media_type":"image/png","type":"base64"}}]},
				{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}}]}]}`
	f, err := ParseMessages([]byte(body))
	tools := `[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"}]`
	same(t, "all", factsJSON(t, f, err), Facts{Model: "m", Stream: true, MaxTokens: 100, N: 1, Tools: true, ToolChoice: "required", ResponseFormat: "json_schema",
		ReasoningEffort: "high", Thinking: true, WebSearch: true, Documents: true, Images: 1, Own: []string{"tools", "documents"}, Linked: []string{"documents"}, Replayed: []byte(`"sig"`),
		TextChars: 7 + 5 + 4, ToolChars: int64(len(tools)), SessionID: "s-1"})
	for id, want := range map[string][2]string{
		`{"session_id":"a"}`: {"a", ""}, `{"device_id":"d"}`: {"", ""}, `user_abc_account_x_session_123-4`: {"123-4", ""},
		`session_9`: {"9", ""}, `plain`: {"", "plain"}, `{broken`: {"", "{broken"}, ``: {"", ""},
	} {
		if s, u := sessionOf(id); s != want[0] || u != want[1] {
			t.Errorf("%s: session %q user %q", id, s, u)
		}
	}
}

func TestParseResponses(t *testing.T) {
	body := `{"model":"m","store":false,"stream":true,"instructions":"Be kind","max_output_tokens":9,"prompt_cache_key":"k","user":"u",
		"reasoning":{"effort":"low"},"text":{"format":{"type":"json_schema"}},"tool_choice":"required","include":["reasoning.encrypted_content"],
		"tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"code_interpreter"}],
		"input":[{"role":"user","content":[{"type":"input_text","text":"Hello"},{"type":"input_image","image_url":"data:image/png;base64,aGk="},{"type":"input_file","file_id":"f1"}]},
			{"type":"reasoning","id":"rs","encrypted_content":"c2Vj","summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"done"}]}`
	f, err := ParseResponses([]byte(body))
	tools := `[{"type":"function","name":"f"},{"type":"web_search"},{"type":"code_interpreter"}]`
	same(t, "all", factsJSON(t, f, err), Facts{Model: "m", Stream: true, MaxTokens: 9, N: 1, Tools: true, ToolChoice: "required", ResponseFormat: "json_schema",
		ReasoningEffort: "low", WebSearch: true, Documents: true, Images: 1, Own: []string{"tools", "documents", "vision"}, Replayed: []byte(`"c2Vj"`),
		TextChars: 7 + 5 + 4, ToolChars: int64(len(tools)), PromptCacheKey: "k", User: "u"})
}

func TestMessagesRefused(t *testing.T) {
	for content, want := range map[string]string{
		`{"role":"tool","content":"x"}`:                        "messages[0].role: must be user or assistant",
		`{"content":"x"}`:                                      "messages[0].role: is missing",
		`{"role":"user"}`:                                      "messages[0].content: is missing",
		`{"role":"user","content":{}}`:                         "messages[0].content: must be a string or an array of blocks",
		`{"role":"user","content":["x"]}`:                      "messages[0].content[0]: must be an object",
		`{"role":"user","content":[{}]}`:                       "messages[0].content[0].type: is missing",
		`{"role":"user","content":[{"type":"smell"}]}`:         "messages[0].content[0]: is a block of a type that does not exist",
		`{"role":"user","content":[{"type":"text","text":1}]}`: "messages[0].content[0].text: must be a string",
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"gone","content":"x"}]}`: "messages[0].content[0].tool_use_id: must be the id of a tool_use before it",
		`{"role":"user","content":[{"type":"image"}]}`:                                          "messages[0].content[0].source: is missing",
		`{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"a b"}}]}`:  "messages[0].content[0].source.data: must be base64",
		`{"role":"user","content":[{"type":"image","source":{"data":"%%%","type":"base64"}}]}`:  "messages[0].content[0].source.data: must be base64",
		`{"role":"user","content":[{"type":"image","source":{"type":"cloud"}}]}`:                "messages[0].content[0].source: must have a type",
	} {
		refused(t, `{"model":"m","max_tokens":1,"messages":[`+content+`]}`, want, ParseMessages)
	}
	refused(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "max_tokens: is missing", ParseMessages)
	refused(t, `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]}`, "max_tokens: must be an integer", ParseMessages)
	refused(t, `{"model":"m","max_tokens":1}`, "messages: is missing", ParseMessages)
	refused(t, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"description":"d"}]}`, "tools[0].name: is missing", ParseMessages)
	refused(t, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"must"}}`, "tool_choice: must have a type", ParseMessages)
	if _, err := ParseCount([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)); err != nil {
		t.Error(err)
	}
}

// What nobody signed is left out together with the commas around it.
func TestUnsignedReasoningIsFound(t *testing.T) {
	for content, want := range map[string]string{
		`[{"type":"thinking","thinking":"x","signature":""},{"type":"text","text":"a"}]`:                                     `[{"type":"text","text":"a"}]`,
		`[{"type":"text","text":"a"}, {"type":"thinking","thinking":"x"}]`:                                                   `[{"type":"text","text":"a"}]`,
		`[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"},{"type":"thinking","thinking":"y","signature":"s"}]`: `[{"type":"text","text":"a"},{"type":"thinking","thinking":"y","signature":"s"}]`,
	} {
		body := `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":` + content + `}]}`
		f, err := ParseMessages([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		got := body
		for i := len(f.Unsigned) - 1; i >= 0; i-- {
			got = got[:f.Unsigned[i].Key] + got[f.Unsigned[i].End:]
		}
		if !json.Valid([]byte(got)) || !strings.Contains(got, `"content":`+want+`}`) {
			t.Errorf("%s\ngot %s", content, got)
		}
	}
}

func TestMessagesUsage(t *testing.T) {
	take := func(limit int64, raws ...string) Usage {
		var m MessagesUsage
		for _, raw := range raws {
			m.Take([]byte(raw), limit)
		}
		return m.Usage()
	}
	for _, tc := range []struct {
		name  string
		raws  []string
		limit int64
		want  Usage
	}{
		{"cached and written beside input", []string{`{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":50,"output_tokens":7}`}, 0,
			Usage{InputTokens: 160, CachedInputTokens: 100, CacheWriteTokens: 50, OutputTokens: 7, Source: "reported"}},
		{"by lifetime", []string{`{"input_tokens":1,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}`}, 0,
			Usage{InputTokens: 51, CacheWriteTokens: 20, CacheWrite1hTokens: 30, OutputTokens: 7, ReasoningTokens: 3, Source: "reported"}},
		{"the last wins, field by field", []string{`{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}`, `{"output_tokens":9}`}, 0,
			Usage{InputTokens: 15, CachedInputTokens: 5, OutputTokens: 9, Source: "reported"}},
		{"nulls are absent", []string{`{"input_tokens":10,"cache_read_input_tokens":null,"cache_creation":null,"output_tokens":1}`}, 0,
			Usage{InputTokens: 10, OutputTokens: 1, Source: "reported"}},
		{"nothing", nil, 0, Usage{Source: "missing"}},
		{"negative is refused, what was good stays", []string{`{"input_tokens":10,"output_tokens":1}`, `{"output_tokens":-9}`}, 0,
			Usage{InputTokens: 10, OutputTokens: 1, Source: "reported", Flag: "usage_negative"}},
		{"absurd", []string{`{"input_tokens":2001,"output_tokens":1}`}, 1000, Usage{Source: "missing", Flag: "usage_absurd"}},
		{"a string", []string{`{"input_tokens":"7","output_tokens":1}`}, 0, Usage{Source: "missing", Flag: "usage_string"}},
		{"broken", []string{`{"input_tokens":7`}, 0, Usage{Source: "missing", Flag: "usage_malformed"}},
	} {
		if got := take(tc.limit, tc.raws...); got != tc.want {
			t.Errorf("%s\ngot  %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

func FuzzSurfaces(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"aGk="}}]}]}`))
	f.Add([]byte(`{"model":"m","input":[[1,2]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*Facts, *APIError){ParseMessages, ParseCount, ParseEmbeddings, ParseResponses} {
			if facts, err := parse(body); (facts == nil) == (err == nil) {
				t.Fatal("neither facts nor an error, or both")
			}
		}
	})
}

// What stands in a request by its address is told from what stands there as data.
func TestLinked(t *testing.T) {
	for _, tc := range []struct {
		parse func([]byte) (*Facts, *APIError)
		body  string
		want  string
	}{
		{ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/a.png"}}]}]}`, "[vision]"},
		{ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,aGk="}}]}]}`, "[]"},
		{ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"https://x/a.pdf"}}]}]}`, "[documents]"},
		{ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,aGk="}}]}]}`, "[]"},
		{ParseResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://x/a.png"},{"type":"input_file","file_url":"https://x/a.pdf"}]}]}`, "[vision documents]"},
		{ParseResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,aGk="}]}]}`, "[]"},
		{ParseMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/a.png"}}]}]}`, "[vision]"},
		{ParseMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}`, "[]"},
		{ParseMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"url","url":"https://x/a.png"}}]}]}]}`, "[vision]"},
	} {
		f, err := tc.parse([]byte(tc.body))
		if err != nil {
			t.Fatalf("%s: %v", tc.body, err)
		}
		if got := fmt.Sprint(f.Linked); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.body, got, tc.want)
		}
	}
}
