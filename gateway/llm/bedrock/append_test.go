package bedrock

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/gateway/llm/messages"
)

const (
	sonnet45 = "anthropic.claude-sonnet-4-5-20250929-v1:0"
	opus46   = "us.anthropic.claude-opus-4-6-v1"
	haiku35  = "anthropic.claude-3-5-haiku-20241022-v1:0"
	nova1    = "amazon.nova-pro-v1:0"
	novaTwo  = "global.amazon.nova-2-lite-v1:0"
	oss      = "openai.gpt-oss-120b-1:0"
	llama    = "meta.llama3-3-70b-instruct-v1:0"
	qwen     = "qwen.qwen3-32b-v1:0"
)

// written is the request as Converse gets it, or one field of it, and what was stripped.
func written(t *testing.T, r *llm.Request, s llm.Sending, field string) (value, stripped string) {
	t.Helper()
	out, lost := Append(nil, r, s)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if field == "" {
		return string(out), strings.Join(lost, " ")
	}
	return string(all[field]), strings.Join(lost, " ")
}

func fromChat(t *testing.T, rest string) *llm.Request {
	t.Helper()
	body := []byte(`{"model":"m",` + rest + `}`)
	if _, err := llm.ParseChat(body); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r, err := chat.Decode(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func fromMessages(t *testing.T, rest string) *llm.Request {
	t.Helper()
	body := []byte(`{"model":"m","max_tokens":5000,` + rest + `}`)
	if _, err := llm.ParseMessages(body); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r, err := messages.Decode(body)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

const hi = `"messages":[{"role":"user","content":"Hi"}]`

// How each family of models is told to think and to sample.
func TestFamilies(t *testing.T) {
	for _, tc := range []struct {
		model, ask, field, want, stripped string
	}{
		{sonnet45, `"reasoning_effort":"high"`, "additionalModelRequestFields", `{"thinking":{"type":"enabled","budget_tokens":7999}}`, ""},
		{sonnet45, `"reasoning_effort":"high"`, "inferenceConfig", `{"maxTokens":8000}`, ""},
		{sonnet45, `"reasoning_effort":"low","max_tokens":900`, "inferenceConfig", `{"maxTokens":900}`, "reasoning_effort"},
		{opus46, `"reasoning_effort":"minimal"`, "additionalModelRequestFields", `{"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}`, ""},
		{opus46, `"reasoning_effort":"max","temperature":0.5,"top_p":0.5`, "inferenceConfig", ``, "temperature top_p"},
		{opus46, `"reasoning_effort":"none","temperature":0.5`, "inferenceConfig", `{"temperature":0.5}`, ""},
		{oss, `"reasoning_effort":"xhigh","temperature":0.5`, "additionalModelRequestFields", `{"reasoning_effort":"high"}`, ""},
		{oss, `"reasoning_effort":"none"`, "additionalModelRequestFields", ``, ""},
		{novaTwo, `"reasoning_effort":"high","temperature":0.5`, "", `{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"high"}}}`, "temperature"},
		{novaTwo, `"reasoning_effort":"high","max_tokens":9`, "additionalModelRequestFields", `{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}}`, ""},
		{nova1, `"reasoning_effort":"high"`, "additionalModelRequestFields", ``, "reasoning_effort"},
		{llama, `"reasoning_effort":"high","temperature":1.2`, "inferenceConfig", `{"temperature":1}`, "reasoning_effort temperature"},
		{llama, `"service_tier":"flex"`, "serviceTier", `{"type":"flex"}`, ""},
		{llama, `"service_tier":"scale"`, "serviceTier", ``, "service_tier"},
		{"made-up", `"tools":[{"type":"function","function":{"name":"f","strict":true}}]`, "toolConfig", `{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}},"strict":true}}]}`, ""},
		{haiku35, `"tools":[{"type":"function","function":{"name":"f","strict":true}}]`, "toolConfig", `{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]}`, "strict"},
		{llama, `"tools":[{"type":"function","function":{"name":"f","strict":true}}]`, "toolConfig", `{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]}`, "strict"},
		{qwen, `"stop":["a"]`, "additionalModelResponseFieldPaths", ``, ""},
		{opus46, `"stop":["a"]`, "additionalModelResponseFieldPaths", `["/stop_sequence"]`, ""},
	} {
		got, stripped := written(t, fromChat(t, hi+","+tc.ask), llm.Sending{Model: tc.model, MaxTokens: 8000}, tc.field)
		if got != tc.want || stripped != tc.stripped {
			t.Errorf("%s %s: %s stripped %q, want %s %q", tc.model, tc.ask, got, stripped, tc.want, tc.stripped)
		}
	}
	for model, want := range map[string]string{nova1: `{"inferenceConfig":{"topK":9}}`, opus46: `{"top_k":9}`, llama: ``} {
		if got, stripped := written(t, fromMessages(t, hi+`,"top_k":9`), llm.Sending{Model: model}, "additionalModelRequestFields"); got != want || (stripped == "top_k") != (want == "") {
			t.Errorf("%s: %s stripped %q", model, got, stripped)
		}
	}
}

// A tool must not be called where the client said so, and Converse demands tools where the conversation
// has calls.
func TestToolChoice(t *testing.T) {
	const (
		tools   = `"tools":[{"type":"function","function":{"name":"f"}}]`
		history = `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"g","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"},{"role":"tool","tool_call_id":"d","content":"2"}]`
		spec    = `{"toolSpec":{"name":"%s","inputSchema":{"json":{"type":"object","properties":{}}}}}`
	)
	f, g := fmt.Sprintf(spec, "f"), fmt.Sprintf(spec, "g")
	for _, tc := range []struct {
		model, ask, config, extra, stripped string
		any                                 bool
	}{
		{opus46, hi + `,"tool_choice":"none"`, "", "", "", false},
		{opus46, hi + `,"parallel_tool_calls":false`, "", "", "", false},
		{opus46, hi + "," + tools, `{"tools":[` + f + `]}`, "", "", false},
		{opus46, hi + "," + tools + `,"tool_choice":"auto"`, `{"tools":[` + f + `],"toolChoice":{"auto":{}}}`, "", "", false},
		{opus46, hi + "," + tools + `,"tool_choice":"required"`, `{"tools":[` + f + `],"toolChoice":{"any":{}}}`, "", "", false},
		{opus46, hi + "," + tools + `,"tool_choice":"required"`, `{"tools":[` + f + `],"toolChoice":{"auto":{}}}`, "", "", true},
		{opus46, hi + "," + tools + `,"parallel_tool_calls":false`, `{"tools":[` + f + `]}`, `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, "", false},
		{opus46, hi + "," + tools + `,"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"f"}}`, `{"tools":[` + f + `]}`, `{"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`, "", false},
		{opus46, history, `{"tools":[` + g + `]}`, `{"tool_choice":{"type":"none"}}`, "", false},
		{opus46, history + "," + tools + `,"tool_choice":"none"`, `{"tools":[` + f + `]}`, `{"tool_choice":{"type":"none"}}`, "", false},
		{haiku35, hi + "," + tools + `,"parallel_tool_calls":false`, `{"tools":[` + f + `]}`, "", "parallel_tool_calls", false},
		{haiku35, hi + "," + tools + `,"tool_choice":"none"`, "", "", "", false},
		{llama, hi + "," + tools + `,"tool_choice":"none"`, "", "", "", false},
		{llama, history, `{"tools":[` + g + `]}`, "", "", false},
		{llama, history + "," + tools + `,"tool_choice":"none"`, `{"tools":[` + f + `]}`, "", "tool_choice", false},
		{llama, hi + "," + tools + `,"parallel_tool_calls":false`, `{"tools":[` + f + `]}`, "", "parallel_tool_calls", false},
	} {
		r := fromChat(t, tc.ask)
		s := llm.Sending{Model: tc.model, AnyTool: tc.any}
		config, stripped := written(t, r, s, "toolConfig")
		extra, _ := written(t, r, s, "additionalModelRequestFields")
		if config != tc.config || extra != tc.extra || stripped != tc.stripped {
			t.Errorf("%s %s\ngot  %s %s %q\nwant %s %s %q", tc.model, tc.ask, config, extra, stripped, tc.config, tc.extra, tc.stripped)
		}
	}
}

// Marks of what is to be cached stand behind it, never inside a result; some models refuse them.
func TestCachePoints(t *testing.T) {
	const (
		hour  = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
		short = `"cache_control":{"type":"ephemeral"}`
		ask   = `"system":[{"type":"text","text":"s",` + hour + `}],"messages":[{"role":"user","content":[{"type":"text","text":"a",` + short + `},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"r",` + short + `}]}]}],"tools":[{"name":"f","input_schema":{},` + short + `}]`
		point = `{"cachePoint":{"type":"default"}}`
	)
	const conversation = `[{"role":"user","content":[{"text":"a"},` + point + `,{"text":"b"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"r"}]}},` + point + `]}]`
	for model, system := range map[string]string{
		opus46: `[{"text":"s"},{"cachePoint":{"type":"default","ttl":"1h"}}]`, haiku35: `[{"text":"s"},` + point + `]`, nova1: `[{"text":"s"},` + point + `]`,
	} {
		r, s := fromMessages(t, ask), llm.Sending{Model: model}
		if got, stripped := written(t, r, s, "system"); got != system || stripped != "" {
			t.Errorf("%s: %s %q", model, got, stripped)
		}
		if got, _ := written(t, r, s, "messages"); got != conversation {
			t.Errorf("%s: %s", model, got)
		}
		if got, _ := written(t, r, s, "toolConfig"); got != `{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}},`+point+`]}` {
			t.Errorf("%s: %s", model, got)
		}
	}
	if got, stripped := written(t, fromMessages(t, ask), llm.Sending{Model: llama}, ""); strings.Contains(got, "cachePoint") || stripped != "cache_control" {
		t.Errorf("%s %q", got, stripped)
	}
}

// Converse refuses what is blank, roles that do not alternate, and documents without text, with names of
// other characters or of the same name.
func TestTurns(t *testing.T) {
	const pdf = `{"type":"document","title":%s,"source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}`
	document := func(name string) string { return fmt.Sprintf(pdf, name) }
	for _, tc := range []struct{ ask, field, want string }{
		{`"messages":[{"role":"user","content":[{"type":"text","text":" \n\t"},{"type":"text","text":"a"}]},{"role":"assistant","content":"  "},{"role":"user","content":"b"}]`, "messages",
			`[{"role":"user","content":[{"text":"a"},{"text":"b"}]}]`},
		{`"system":" \u00a0 ",` + hi, "system", ``},
		{`"messages":[{"role":"user","content":[` + document(`"Q3 report, v2.final.pdf"`) + `,` + document(`"Q3 report  v2.final.docx"`) + `,` + document(`"\u00e9"`) + `,` + document(`null`) + `]}]`, "messages",
			`[{"role":"user","content":[` +
				`{"document":{"name":"Q3-report-v2-final","format":"pdf","source":{"bytes":"aGk="}}},{"document":{"name":"Q3-report-v2-final (2)","format":"pdf","source":{"bytes":"aGk="}}},` +
				`{"document":{"name":"document","format":"pdf","source":{"bytes":"aGk="}}},{"document":{"name":"document (2)","format":"pdf","source":{"bytes":"aGk="}}},{"text":"document"}]}]`},
		{`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true}]}]`, "messages",
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":""}],"status":"error"}}]}]`},
	} {
		if got, _ := written(t, fromMessages(t, tc.ask), llm.Sending{Model: opus46}, tc.field); got != tc.want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.ask, got, tc.want)
		}
	}
	failed := `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"}]}]`
	if got, stripped := written(t, fromMessages(t, failed), llm.Sending{Model: llama}, "messages"); strings.Contains(got, "status") || stripped != "is_error" {
		t.Errorf("%s %q", got, stripped)
	}
	linked := `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"text","text":"a"}]}]`
	if got, stripped := written(t, fromMessages(t, linked), llm.Sending{Model: opus46}, "messages"); got != `[{"role":"user","content":[{"text":"a"}]}]` || stripped != "url" {
		t.Errorf("%s %q", got, stripped)
	}
}

func TestFormats(t *testing.T) {
	for media, want := range map[string]string{
		"application/pdf": "pdf", "text/plain": "txt", "text/markdown": "md", "text/x-python": "txt", "": "txt", "IMAGE/JPG": "jpeg", "image/jpeg": "jpeg", "image/webp": "webp",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "audio/wav": "wav", "image/tiff": "tiff",
	} {
		if got := format(media); got != want {
			t.Errorf("%q: %s, want %s", media, got, want)
		}
	}
	long := documentName(&llm.Part{Name: llm.Raw(`"` + strings.Repeat("a", 500) + `.pdf"`)})
	if len(long) != maxName {
		t.Errorf("a name of %d bytes", len(long))
	}
}

// Where only the system spoke there was nobody to answer, which Amazon refuses.
func TestASystemAloneSpeaksAsTheUser(t *testing.T) {
	got, _ := written(t, fromChat(t, `"messages":[{"role":"system","content":"Say hi"}]`), llm.Sending{Model: sonnet45}, "messages")
	if got != `[{"role":"user","content":[{"text":"Say hi"}]}]` {
		t.Error(got)
	}
}

// A client's Anthropic-Beta was lost; all of it would be refused.
func TestBetasThatAmazonKnowsReachClaude(t *testing.T) {
	asked := []string{"claude-code-20250219", "context-1m-2025-08-07", "interleaved-thinking-2025-05-14"}
	for model, want := range map[string]string{haiku35: "", "anthropic.claude-haiku-4-5-20251001-v1:0": `{"anthropic_beta":["interleaved-thinking-2025-05-14"]}`, sonnet45: `{"anthropic_beta":["interleaved-thinking-2025-05-14","context-1m-2025-08-07"]}`, nova1: "", llama: ""} {
		if got, _ := written(t, fromChat(t, `"messages":[{"role":"user","content":"x"}]`), llm.Sending{Model: model, Betas: asked}, "additionalModelRequestFields"); got != want {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
	if got, _ := written(t, fromChat(t, `"messages":[{"role":"user","content":"x"}]`), llm.Sending{Model: sonnet45, Betas: asked[:1]}, "additionalModelRequestFields"); got != "" {
		t.Errorf("%s for %s", got, asked[0])
	}
}
