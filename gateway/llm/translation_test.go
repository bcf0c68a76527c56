package llm_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnout/gateway/llm"
	"turnout/gateway/llm/bedrock"
	"turnout/gateway/llm/chat"
	"turnout/gateway/llm/gemini"
	"turnout/gateway/llm/messages"
	"turnout/gateway/llm/responses"
)

var decoders = map[string]func([]byte) (*llm.Request, *llm.Error){
	"chat": chat.Decode, "messages": messages.Decode, "responses": responses.Decode,
}

var appenders = map[string]func([]byte, *llm.Request, llm.Sending) ([]byte, []string){
	"chat": chat.Append, "messages": messages.Append, "gemini": gemini.Append, "bedrock": bedrock.Append,
}

// sent is a request of a surface as an upstream gets it, and what was left out.
func sent(t *testing.T, from, to, model, body string) (out string, stripped []string) {
	t.Helper()
	r, failure := decoders[from]([]byte(body))
	if failure != nil {
		t.Fatalf("%s: %v", body, failure)
	}
	b, stripped := appenders[to](nil, r, llm.Sending{Model: model, MaxTokens: 1000, OpenAI: strings.HasPrefix(model, "gpt-")})
	if !json.Valid(b) {
		t.Fatalf("no JSON: %s", b)
	}
	return string(b), stripped
}

const hi = `"messages":[{"role":"user","content":"Hi"}]`

func TestWhatATranslationLeavesOutIsTold(t *testing.T) {
	for _, tc := range []struct{ from, to, body, want string }{
		{"responses", "messages", `{"input":"Hi","text":{"verbosity":"low"}}`, "text.verbosity"},
		{"responses", "gemini", `{"input":"Hi","text":{"verbosity":"low","x":1}}`, "text.verbosity text.x"},
		{"responses", "bedrock", `{"input":"Hi","text":{"verbosity":"low"}}`, "text.verbosity"},
		{"responses", "chat", `{"input":"Hi","text":{"verbosity":"low"}}`, ""},
		{"chat", "messages", `{` + hi + `,"verbosity":"low"}`, "verbosity"},
		{"chat", "gemini", `{` + hi + `,"verbosity":"low"}`, "verbosity"},
		{"responses", "chat", `{"input":"Hi","reasoning":{"effort":"low","summary":"auto","context":"x"}}`, "reasoning.context"},
		{"responses", "chat", `{"input":"Hi","include":["reasoning.encrypted_content","message.output_text.logprobs"]}`, "include"},
		{"messages", "chat", `{` + hi + `,"thinking":{"type":"adaptive","display":"omitted","x":1},"output_config":{"effort":"low","task_budget":{}}}`, "thinking.x output_config.task_budget"},
		{"messages", "chat", `{"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]}`, "cache_control"},
		{"messages", "gemini", `{` + hi + `,"tools":[{"name":"f","strict":true,"input_examples":[],"input_schema":{"type":"object"}}]}`, "tools.input_examples strict"},
		{"messages", "chat", `{"messages":[{"role":"user","content":[{"type":"document","context":"c","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}]}]}`, "context citations"},
		{"messages", "chat", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"no"}]}]}`, "is_error"},
		{"chat", "messages", `{"messages":[{"role":"user","name":"ann","content":[{"type":"image_url","image_url":{"url":"https://x.io/a.png","detail":"low"}}]}]}`, "name detail"},
		{"chat", "gemini", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.io/a.png","detail":"auto"}}]}]}`, ""},
		{"chat", "messages", `{` + hi + `,"service_tier":"flex"}`, "service_tier"},
		{"chat", "messages", `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"x","reasoning":"hm"},{"role":"assistant","content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}]}`, "reasoning_content"},
		{"chat", "messages", `{` + hi + `,"modalities":["text","image"]}`, "modalities"},
		{"chat", "gemini", `{` + hi + `,"modalities":["text","image"]}`, ""},
		{"chat", "messages", `{` + hi + `,"modalities":["text"]}`, ""},
	} {
		if _, stripped := sent(t, tc.from, tc.to, "claude-sonnet-4-0", tc.body); strings.Join(stripped, " ") != tc.want {
			t.Errorf("%s to %s: %s\nstripped %q, want %q", tc.from, tc.to, tc.body, stripped, tc.want)
		}
	}
	if out, _ := sent(t, "responses", "chat", "m", `{"input":"Hi","text":{"verbosity":"low"}}`); !strings.Contains(out, `"verbosity":"low"`) {
		t.Errorf("chat has a word for it: %s", out)
	}
	if out, _ := sent(t, "chat", "gemini", "m", `{`+hi+`,"modalities":["text","image"]}`); !strings.Contains(out, `"responseModalities":["TEXT","IMAGE"]`) {
		t.Error(out)
	}
}

// What stands in the middle of a conversation was moved to its front, which made each such message undo
// the upstream's cache of all that came before.
func TestSystemMessagesInTheMiddleStayThere(t *testing.T) {
	const want = `"messages":[{"role":"system","content":"A\n\nB"},{"role":"user","content":"1"},{"role":"assistant","content":"2"},{"role":"system","content":"C"},{"role":"user","content":"3"},{"role":"system","content":"D"}]`
	out, _ := sent(t, "responses", "chat", "m", `{"instructions":"A","input":[{"role":"developer","content":"B"},{"role":"user","content":"1"},{"role":"assistant","content":"2"},{"role":"system","content":"C"},{"role":"user","content":"3"},{"role":"developer","content":"D"}]}`)
	if !strings.Contains(out, want) {
		t.Errorf("got  %s\nwant %s", out, want)
	}
	// Calls and what they brought stay together.
	out, _ = sent(t, "responses", "chat", "m", `{"input":[{"role":"user","content":"1"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"role":"developer","content":"D"},{"type":"function_call_output","call_id":"c","output":"x"}]}`)
	if !strings.HasSuffix(strings.TrimSuffix(out, "}"), `{"role":"tool","tool_call_id":"c","content":"x"},{"role":"system","content":"D"}]`) {
		t.Error(out)
	}
	// Where there is but one place for it, all of it goes there, whichever field came first.
	out, _ = sent(t, "messages", "gemini", "m", `{"messages":[{"role":"user","content":"1"},{"role":"system","content":"B"}],"system":"A"}`)
	if !strings.Contains(out, `"systemInstruction":{"parts":[{"text":"A"},{"text":"B"}]}`) {
		t.Error(out)
	}
}

func TestCallsOfAnAnswerThatSaysStopAreCalls(t *testing.T) {
	r, err := chat.DecodeResponse([]byte(`{"id":"x","choices":[{"message":{"content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	if out := string(messages.AppendResponse(nil, r, llm.Stamp{})); !strings.Contains(out, `"stop_reason":"tool_use"`) || !strings.Contains(out, `"id":"call_x_0"`) {
		t.Error(out)
	}
	out := translated(t, chat.NewDecoder(0), messages.NewEncoder(llm.Stamp{}, false),
		`{"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`, "[DONE]")
	if !strings.Contains(out, `"stop_reason":"tool_use"`) || !strings.Contains(out, `"id":"call_x_0"`) {
		t.Error(out)
	}
}

type decoder interface {
	Take(name, data []byte, emit func(*llm.Event)) *llm.Error
	Usage() llm.Usage
}

type encoder interface {
	Append(dst []byte, e *llm.Event) []byte
	End(dst []byte, u *llm.Usage) (out []byte, spliceAt int)
}

// translated is a stream of data as the client of another dialect sees it.
func translated(t *testing.T, d decoder, e encoder, data ...string) string {
	t.Helper()
	var out []byte
	for _, event := range data {
		if failure := d.Take(nil, []byte(event), func(ev *llm.Event) { out = e.Append(out, ev) }); failure != nil {
			t.Fatal(failure)
		}
	}
	usage := d.Usage()
	out, _ = e.End(out, &usage)
	return string(out)
}

// Some upstreams count calls from 1, some send the second before the first.
func TestCallsKeepTheirArgumentsWhateverTheirIndexes(t *testing.T) {
	for _, indexes := range [][2]string{{"0", "1"}, {"1", "2"}, {"1", "0"}, {"3", "7"}} {
		stream := []string{
			`{"id":"x","choices":[{"delta":{"tool_calls":[{"index":` + indexes[0] + `,"id":"a","function":{"name":"f","arguments":""}}]}}]}`,
			`{"id":"x","choices":[{"delta":{"tool_calls":[{"index":` + indexes[1] + `,"id":"b","function":{"name":"g","arguments":""}}]}}]}`,
			`{"id":"x","choices":[{"delta":{"tool_calls":[{"index":` + indexes[0] + `,"function":{"arguments":"{\"n\":1}"}}]}}]}`,
			`{"id":"x","choices":[{"delta":{"tool_calls":[{"index":` + indexes[1] + `,"function":{"arguments":"{\"n\":2}"}}]}}]}`,
			`{"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]",
		}
		out := translated(t, chat.NewDecoder(0), messages.NewEncoder(llm.Stamp{}, false), stream...)
		for _, want := range []string{
			`"index":0,"content_block":{"type":"tool_use","id":"a"`, `"index":1,"content_block":{"type":"tool_use","id":"b"`,
			`"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}`, `"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\":2}"}`,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %s in\n%s", indexes, want, out)
			}
		}
		out = translated(t, chat.NewDecoder(0), responses.NewEncoder(llm.Stamp{}, false), stream...)
		for _, want := range []string{`"call_id":"a","name":"f","arguments":"{\"n\":1}"`, `"call_id":"b","name":"g","arguments":"{\"n\":2}"`} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %s in\n%s", indexes, want, out)
			}
		}
	}
}

// Reasons of Google's for giving up were told as a finished answer.
func TestAnswersThatGeminiGaveUpAreErrors(t *testing.T) {
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"} {
		body := []byte(`{"candidates":[{"content":{"parts":[]},"finishReason":"` + reason + `"}]}`)
		if r, err := gemini.DecodeResponse(body, 0); err == nil {
			t.Errorf("%s: %+v", reason, r)
		}
		if failure := gemini.NewDecoder(0).Take(nil, body, func(*llm.Event) {}); failure == nil || !failure.Retryable() {
			t.Errorf("%s: %v", reason, failure)
		}
	}
	if r, err := gemini.DecodeResponse([]byte(`{"candidates":[{"finishReason":"IMAGE_PROHIBITED_CONTENT"}]}`), 0); err != nil || r.Finish != llm.FinishFilter {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := chat.DecodeResponse([]byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"insufficient_system_resource"}]}`), 0); err == nil {
		t.Errorf("%+v", r)
	}
	if r, err := chat.DecodeResponse([]byte(`{"choices":[{"message":{"content":"x"},"finish_reason":"model_length"}]}`), 0); err != nil || r.Finish != llm.FinishLength {
		t.Errorf("%+v %v", r, err)
	}
}

const drawn = `{"candidates":[{"content":{"parts":[{"text":"Here"},{"text":" it is"},{"inlineData":{"mimeType":"image/png","data":"aGVsbG8="}},{"text":"draft","thought":true},{"thought":true,"inlineData":{"mimeType":"image/png","data":"bm8="}}]},"finishReason":"STOP"}],"responseId":"r"}`

func TestImagesThatGeminiMakesReachTheClient(t *testing.T) {
	r, err := gemini.DecodeResponse([]byte(drawn), 0)
	if err != nil {
		t.Fatal(err)
	}
	stamp := llm.Stamp{ID: "s", Model: "m"}
	const (
		url    = `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGVsbG8="},"index":0}]`
		item   = `{"id":"ig_s_1","type":"image_generation_call","status":"completed","output_format":"png","result":"aGVsbG8="}`
		honest = `The model made an image (image/png), which an answer of Messages cannot hold`
	)
	for what, tc := range map[string]struct{ plain, stream, want string }{
		"chat":      {string(chat.AppendResponse(nil, r, stamp)), translated(t, gemini.NewDecoder(0), chat.NewEncoder(stamp, false), drawn), url},
		"responses": {string(responses.AppendResponse(nil, r, stamp)), translated(t, gemini.NewDecoder(0), responses.NewEncoder(stamp, false), drawn), item},
		"messages":  {string(messages.AppendResponse(nil, r, stamp)), translated(t, gemini.NewDecoder(0), messages.NewEncoder(stamp, false), drawn), honest},
	} {
		if !json.Valid([]byte(tc.plain)) || strings.Count(tc.plain, tc.want) != 1 || strings.Contains(tc.plain, "bm8=") {
			t.Errorf("%s, plain: %s", what, tc.plain)
		}
		if !strings.Contains(tc.stream, tc.want) || strings.Contains(tc.stream, "bm8=") {
			t.Errorf("%s, stream: %s", what, tc.stream)
		}
	}
	if out := string(responses.AppendResponse(nil, r, stamp)); strings.Count(out, `"type":"message"`) != 1 || !strings.Contains(out, `"text":"Here it is"`) {
		t.Errorf("one text became several messages: %s", out)
	}
}

// An image that the model made comes back in the history, for it to be changed.
func TestImagesThatTheModelMadeComeBackInTheUsersTurn(t *testing.T) {
	for from, body := range map[string]string{
		"chat":      `{"messages":[{"role":"user","content":"Draw"},{"role":"assistant","content":"Here","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGVsbG8="}}]},{"role":"user","content":"Larger"}]}`,
		"responses": `{"input":[{"role":"user","content":"Draw"},{"role":"assistant","content":"Here"},{"type":"image_generation_call","id":"ig_1","status":"completed","output_format":"png","result":"aGVsbG8="},{"role":"user","content":"Larger"}]}`,
	} {
		for to, want := range map[string]string{
			"gemini":   `{"role":"model","parts":[{"text":"Here"}]},{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"aGVsbG8="}},{"text":"Larger"}]}`,
			"messages": `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="}},{"type":"text","text":"Larger"}]}`,
			"chat":     `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGVsbG8="}},{"type":"text","text":"Larger"}]}`,
		} {
			if out, stripped := sent(t, from, to, "m", body); !strings.Contains(out, want) || len(stripped) > 0 {
				t.Errorf("%s to %s: %s %v", from, to, out, stripped)
			}
		}
	}
	facts, failed := llm.ParseResponses([]byte(`{"model":"m","input":[{"role":"user","content":"x"},{"type":"image_generation_call","result":"aGk="}]}`))
	if failed != nil || facts.Images != 1 || facts.Own != nil {
		t.Errorf("%+v %v", facts, failed)
	}
	if facts, failed = llm.ParseResponses([]byte(`{"model":"m","input":[{"type":"image_generation_call","id":"ig_1"}]}`)); failed != nil || !slices.Equal(facts.Own, []string{"vision"}) {
		t.Errorf("%+v %v", facts, failed)
	}
	if _, failed = llm.ParseResponses([]byte(`{"model":"m","input":[{"type":"image_generation_call","result":"%"}]}`)); failed == nil || failed.Param != "input[0].result" {
		t.Errorf("%v", failed)
	}
	if facts, failed = llm.ParseChat([]byte(`{"model":"m","messages":[{"role":"assistant","images":[{"type":"image_url","image_url":{"url":"https://x.io/a.png"}}]}]}`)); failed != nil || facts.Images != 1 || !slices.Equal(facts.Linked, []string{"vision"}) {
		t.Errorf("%+v %v", facts, failed)
	}
}

// Mistral's models answer in lists of parts, in streams too, and think in parts of their own.
func TestContentInPartsIsRead(t *testing.T) {
	const parts = `[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Four"}]`
	r, err := chat.DecodeResponse([]byte(`{"choices":[{"message":{"content":`+parts+`},"finish_reason":"stop"}]}`), 0)
	if err != nil || len(r.Parts) != 2 || r.Parts[0].Kind != llm.PartThinking || string(r.Parts[0].Text) != `"Hm"` || string(r.Parts[1].Text) != `"Four"` {
		t.Errorf("%+v %v", r, err)
	}
	out := translated(t, chat.NewDecoder(0), messages.NewEncoder(llm.Stamp{}, false), `{"choices":[{"delta":{"content":`+parts+`},"finish_reason":"stop"}]}`)
	if !strings.Contains(out, `"thinking":"Hm"`) || !strings.Contains(out, `"text":"Four"`) {
		t.Error(out)
	}
}

// An address of an image in a delta was taken for a text without any: Responses ended in a panic.
func TestContentInPartsThatIsNoTextIsNone(t *testing.T) {
	const parts = `[{"type":"image_url","image_url":{"url":"https://h/y.png"}},{"type":"refusal","refusal":"No"},{"type":"text","text":""},{"type":"text","text":"Four"}]`
	const data = `{"id":"x","choices":[{"delta":{"content":` + parts + `},"finish_reason":"stop"}]}`
	for name, e := range map[string]encoder{"messages": messages.NewEncoder(llm.Stamp{}, false), "responses": responses.NewEncoder(llm.Stamp{}, false)} {
		out := translated(t, chat.NewDecoder(0), e, data)
		if !strings.Contains(out, `"Four"`) || strings.Contains(out, "y.png") || name == "responses" && !strings.Contains(out, `"refusal":"No"`) {
			t.Errorf("%s: %s", name, out)
		}
		for line := range strings.Lines(out) {
			if text, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(text)) {
				t.Errorf("%s: no JSON: %s", name, line)
			}
		}
	}
}

func TestABlankSystemTextIsNotSentToClaude(t *testing.T) {
	out, _ := sent(t, "chat", "messages", "claude-sonnet-4-5", `{"messages":[{"role":"system","content":" "},{"role":"user","content":"x"}]}`)
	if strings.Contains(out, "system") {
		t.Error(out)
	}
}

// What Claude's vendor refuses in other vendors' conversations.
func TestConversationsOfOthersAreMadeFitForClaude(t *testing.T) {
	const calls = `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"\n ","tool_calls":[{"id":"functions.read:0","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"functions.read:0","content":"y"}]}`
	out, _ := sent(t, "chat", "messages", "claude-sonnet-4-5", calls)
	if !strings.Contains(out, `"content":[{"type":"tool_use","id":"functions_read_0_1dzd8mpa3d21a"`) || !strings.Contains(out, `"tool_use_id":"functions_read_0_1dzd8mpa3d21a"`) {
		t.Error(out)
	}
	for body, want := range map[string]string{
		`{"messages":[{"role":"system","content":"Say hi"}]}`: `"messages":[{"role":"user","content":[{"type":"text","text":"Say hi"}]}]`,
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.md","file_data":"data:text/markdown;base64,Y2Fmw6k="}}]}]}`:                    `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"café"},"title":"a.md"}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}]}]}`:                                          `"media_type":"image/jpeg"`,
		`{` + hi + `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`:                                                                        `"input_schema":{"type":"object","properties":{}}`,
		`{` + hi + `,"tools":[{"type":"function","function":{"name":"f","parameters":{ "properties":{"a":{"type":"string"}}}}}]}`:                                   `"input_schema":{"type":"object","properties":{"a":{"type":"string"}}}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","refusal":"No","content":[{"type":"text","text":"Sorry"}]},{"role":"user","content":"y"}]}`: `[{"type":"text","text":"Sorry"},{"type":"text","text":"No"}]`,
	} {
		if out, _ := sent(t, "chat", "messages", "claude-sonnet-4-5", body); !strings.Contains(out, want) {
			t.Errorf("%s\ngot  %s\nwant %s", body, out, want)
		}
	}
	if out, _ := sent(t, "chat", "gemini", "m", `{"messages":[{"role":"system","content":"Say hi"}]}`); out != `{"contents":[{"role":"user","parts":[{"text":"Say hi"}]}]}` {
		t.Error(out)
	}
	for model, want := range map[string]string{
		"claude-3-7-sonnet-20250219": `"temperature":0.5,"top_p":0.9,"top_k":3 `,
		"claude-opus-4-20250514":     `"temperature":0.5,"top_p":0.9,"top_k":3 `,
		"claude-sonnet-4-5-20250929": `"temperature":0.5,"top_k":3 top_p`,
		"claude-opus-4-7":            ` temperature top_p top_k`,
		"kimi-k2":                    `"temperature":0.5,"top_p":0.9,"top_k":3 `,
	} {
		out, stripped := sent(t, "chat", "messages", model, `{`+hi+`,"temperature":0.5,"top_p":0.9,"top_k":3}`)
		sampling := ""
		if i := strings.Index(out, `"temperature"`); i >= 0 {
			sampling = strings.TrimSuffix(out[i:], "}")
		}
		if got := sampling + " " + strings.Join(stripped, " "); got != want {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
}

// Claude is held to closed schemas without bounds; others are refused.
func TestSchemasAreClosedForClaude(t *testing.T) {
	const given = `{"$defs":{"p":{"type":"object","properties":{"minimum":{"type":"integer","minimum":1}}}},"type":"object","properties":{"a":{"$ref":"#/$defs/p"},"b":{"type":"array","items":{"oneOf":[{"type":"string","maxLength":3},{"type":"object","additionalProperties":true,"properties":{}}]},"minItems":2},"c":{"type":"array","minItems":1}},"required":["a"]}`
	const want = `{"$defs":{"p":{"type":"object","properties":{"minimum":{"type":"integer"}},"additionalProperties":false}},"type":"object","properties":{"a":{"$ref":"#/$defs/p"},"b":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"object","additionalProperties":true,"properties":{}}]}},"c":{"type":"array","minItems":1}},"required":["a"],"additionalProperties":false}`
	const left = "schema.minimum schema.maxLength schema.minItems"
	out, stripped := sent(t, "chat", "messages", "claude-sonnet-4-5", `{`+hi+`,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":`+given+`}}}`)
	if !strings.Contains(out, `"schema":`+want) || strings.Join(stripped, " ") != left {
		t.Errorf("%s %v", out, stripped)
	}
	out, stripped = sent(t, "chat", "messages", "claude-sonnet-4-5", `{`+hi+`,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":`+given+`}}]}`)
	if !strings.Contains(out, `"input_schema":`+want) || strings.Join(stripped, " ") != left {
		t.Errorf("%s %v", out, stripped)
	}
	if out, stripped = sent(t, "chat", "messages", "claude-sonnet-4-5", `{`+hi+`,"tools":[{"type":"function","function":{"name":"f","parameters":`+given+`}}]}`); !strings.Contains(out, `"input_schema":`+given) || stripped != nil {
		t.Errorf("nobody asked to be held to it: %s %v", out, stripped)
	}
}

// Answers of Responses said tool_choice auto and no metadata, whatever the request said.
func TestAnswersRepeatWhatTheRequestSaid(t *testing.T) {
	const body = `{"model":"m","input":"Hi","instructions":"Be kind","metadata":{"a":"b"},"tool_choice":"required","tools":[{"type":"function","name":"f"}],"temperature":0.5,"parallel_tool_calls":false,"max_output_tokens":9,"user":null}`
	r, failure := responses.Decode([]byte(body))
	if failure != nil {
		t.Fatal(failure)
	}
	stamp := llm.Stamp{ID: "s", Model: "m", Echo: r.Echo}
	plain := string(responses.AppendResponse(nil, &llm.Response{Finish: llm.FinishStop}, stamp))
	stream, _ := responses.NewEncoder(stamp, false).End(nil, &llm.Usage{})
	for _, want := range []string{`"instructions":"Be kind"`, `"metadata":{"a":"b"}`, `"tool_choice":"required"`, `"tools":[{"type":"function","name":"f"}]`, `"temperature":0.5`, `"parallel_tool_calls":false`, `"max_output_tokens":9`, `"user":null`, `"top_p":null`} {
		if strings.Count(plain, want) != 1 || strings.Count(string(stream), want) != 3 {
			t.Errorf("no %s in %s\n%s", want, plain, stream)
		}
	}
	if !json.Valid([]byte(plain)) {
		t.Error(plain)
	}
}

func TestWritesToACacheAreToldInEveryDialect(t *testing.T) {
	u := llm.Usage{InputTokens: 100, CachedInputTokens: 10, CacheWriteTokens: 20, CacheWrite1hTokens: 30, OutputTokens: 5, Source: "reported"}
	r := &llm.Response{Finish: llm.FinishStop, Usage: u}
	for want, got := range map[string][]byte{
		`"input_tokens":40,"cache_creation_input_tokens":50,"cache_read_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":5`: messages.AppendResponse(nil, r, llm.Stamp{}),
		`"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":50}`: chat.AppendResponse(nil, r, llm.Stamp{}),
		`"input_tokens_details":{"cached_tokens":10,"cache_write_tokens":50}`:  responses.AppendResponse(nil, r, llm.Stamp{}),
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// What no translation can say must keep its mappings from being candidates.
// Line breaks in what a client wrote ended the lines of its stream, and its last response with them.
func TestARequestOverSeveralLinesIsRepeatedInOne(t *testing.T) {
	r, failure := responses.Decode([]byte("{\"model\":\"m\",\"input\":\"Hi\",\"metadata\":{\r\n  \"a\": \"b\\n\"\n}}"))
	if failure != nil {
		t.Fatal(failure)
	}
	out, _ := responses.NewEncoder(llm.Stamp{ID: "s", Model: "m", Echo: r.Echo}, false).End(nil, &llm.Usage{})
	if n := strings.Count(string(out), `"a": "b\n"`); n != 3 {
		t.Errorf("%d times in %s", n, out)
	}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(text)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

// Each unknown field was looked for among all before it: minutes for a body of nothing else.
func TestUnknownFieldsAreNamedUpToABound(t *testing.T) {
	body := []byte(`{"model":"m",` + hi)
	for n := range 200_000 {
		body = fmt.Appendf(body, `,"f%06d":1`, n)
	}
	r, failure := chat.Decode(append(body, '}'))
	if failure != nil {
		t.Fatal(failure)
	}
	if len(r.Unsaid) != 64 || r.Unsaid[0] != "f000000" {
		t.Errorf("%d fields: %q", len(r.Unsaid), r.Unsaid)
	}
}

func TestWhatOnlyTheSurfaceSaysIsNoted(t *testing.T) {
	for _, tc := range []struct {
		parse      func([]byte) (*llm.Facts, *llm.APIError)
		body, want string
	}{
		{llm.ParseChat, `{"model":"m",` + hi + `,"functions":[{"name":"f"}]}`, "tools"},
		{llm.ParseChat, `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"x"}]}`, "tools"},
		{llm.ParseChat, `{"model":"m",` + hi + `,"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}}`, "audio"},
		{llm.ParseChat, `{"model":"m","messages":[{"role":"assistant","audio":{"id":"a"}},{"role":"user","content":"x"}]}`, "audio"},
		{llm.ParseChat, `{"model":"m",` + hi + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}}`, "tool_choice"},
		{llm.ParseResponses, `{"model":"m","input":"x","tool_choice":{"type":"file_search"}}`, "tool_choice"},
		{llm.ParseResponses, `{"model":"m","input":"x","tool_choice":{"type":"custom","name":"f"}}`, ""},
		{llm.ParseResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x.io/a.pdf"}]}]}`, "documents"},
		{llm.ParseResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,aGk="}]}]}`, ""},
	} {
		f, failed := tc.parse([]byte(tc.body))
		if failed != nil {
			t.Errorf("%s: %v", tc.body, failed)
		} else if got := strings.Join(f.Own, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.body, got, tc.want)
		}
	}
}

func TestBlocksOnTheWrongSideAreRefused(t *testing.T) {
	const head = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},`
	for body, param := range map[string]string{
		head + `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]}`:                   "messages[2].content[0]",
		head + `{"content":[{"type":"text","text":"y"},{"type":"tool_use","id":"b","name":"f","input":{}}],"role":"user"}]}`: "messages[2].content[1]",
		head + `{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"aGk="}}]}]}`:                     "messages[2].content[0].source.media_type",
	} {
		if _, failed := llm.ParseMessages([]byte(body)); failed == nil || failed.Status != 400 || failed.Param != param {
			t.Errorf("%s: %+v", body, failed)
		}
	}
}

// A media type with a quote in it ended the string that it was written into, and what followed became
// fields of the upstream's request.
func TestMediaTypesStayInTheirString(t *testing.T) {
	const media = `image/png\"}}]}],\"model\":\"other`
	for from, body := range map[string]string{
		"messages":  `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"` + media + `","data":"aGk="}}]}]}`,
		"responses": `{"input":[{"type":"image_generation_call","output_format":"` + media + `\u0000","result":"aGk="}]}`,
	} {
		for to := range appenders {
			if out, _ := sent(t, from, to, "mine", body); strings.Contains(out, `"model":"other"`) {
				t.Errorf("%s to %s: %s", from, to, out)
			}
		}
	}
	r := &llm.Response{Parts: []llm.Part{{Kind: llm.PartImage, Media: "image/p\"ng", Data: llm.Raw(`"aGk="`)}}}
	if out := chat.AppendResponse(nil, r, llm.Stamp{}); !json.Valid(out) {
		t.Errorf("%s", out)
	}
}

// Anthropic's schemas may have optional properties and OpenAI's strict ones may not: such requests were
// refused.
func TestSchemasThatOpenAICannotBeStrictAboutAreSentLoosely(t *testing.T) {
	const (
		optional = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}`
		whole    = `{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{},"additionalProperties":false},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`
		open     = `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`
	)
	for schema, strict := range map[string]bool{optional: false, whole: true, open: false} {
		for _, body := range []string{
			`{` + hi + `,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
			`{` + hi + `,"tools":[{"name":"f","strict":true,"input_schema":` + schema + `}]}`,
		} {
			out, stripped := sent(t, "messages", "chat", "gpt-5", body)
			if strings.Contains(out, `"strict":true`) != strict || slices.Contains(stripped, "strict") == strict || !strings.Contains(out, schema) {
				t.Errorf("%s\n%v", out, stripped)
			}
			if out, stripped = sent(t, "messages", "chat", "llama", body); !strings.Contains(out, `"strict":true`) || stripped != nil {
				t.Errorf("others hold to it all the same: %s %v", out, stripped)
			}
		}
	}
}

// Claude's reasoning was lost on clients of Responses, so it could not go on thinking between calls of tools.
func TestSignedReasoningGoesThroughResponsesAndBack(t *testing.T) {
	const (
		body     = `{"id":"msg_1","content":[{"type":"thinking","thinking":"Hm \"so\"","signature":"c2ln/+=="},{"type":"redacted_thinking","data":"eHg="},{"type":"thinking","thinking":"","signature":"b21pdA=="},{"type":"tool_use","id":"a","name":"f","input":{}}],"stop_reason":"tool_use"}`
		thoughts = `{"type":"thinking","thinking":"Hm \"so\"","signature":"c2ln/+=="},{"type":"redacted_thinking","data":"eHg="},{"type":"thinking","thinking":"","signature":"b21pdA=="},{"type":"tool_use","id":"a","name":"f","input":{}}`
	)
	r, err := messages.DecodeResponse([]byte(body), 0)
	if err != nil {
		t.Fatal(err)
	}
	stamp := llm.Stamp{ID: "s", Model: "m", Sealed: true}
	plain := responses.AppendResponse(nil, r, stamp)
	stream := translated(t, messages.NewDecoder(0), responses.NewEncoder(stamp, false),
		`{"type":"message_start","message":{"id":"msg_1"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm \"so\""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln/+=="}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"eHg="}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"b21pdA=="}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)
	last := stream[strings.LastIndex(stream, "data: ")+len("data: "):]
	var whole struct{ Response json.RawMessage }
	if err := json.Unmarshal([]byte(last), &whole); err != nil {
		t.Fatal(err)
	}
	for what, answer := range map[string][]byte{"plain": plain, "stream": whole.Response} {
		var a struct{ Output json.RawMessage }
		if err := json.Unmarshal(answer, &a); err != nil {
			t.Fatal(err)
		}
		items := strings.TrimSuffix(string(a.Output), "]")
		ask := `{"input":` + items + `,{"type":"function_call_output","call_id":"a","output":"x"}],"reasoning":{"effort":"high"},"tools":[{"type":"function","name":"f"}]}`
		out, stripped := sent(t, "responses", "messages", "claude-opus-4-6", ask)
		if !strings.Contains(out, thoughts) || !strings.Contains(out, `"thinking":{"type":"adaptive"}`) || stripped != nil {
			t.Errorf("%s: %s %v", what, out, stripped)
		}
	}
	if out := string(responses.AppendResponse(nil, r, llm.Stamp{})); strings.Contains(out, "encrypted_content") {
		t.Errorf("nobody asked for it: %s", out)
	}
	if out, stripped := sent(t, "responses", "messages", "claude-opus-4-6", `{"input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"c2Vj"},{"role":"user","content":"y"}]}`); strings.Contains(out, "thinking") || strings.Join(stripped, "") != "reasoning_content" {
		t.Errorf("OpenAI's own is nobody's here: %s %v", out, stripped)
	}
}
