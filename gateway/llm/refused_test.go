package llm

import (
	"fmt"
	"strings"
	"testing"
)

// What no upstream could take is refused with its path, whatever the order of the fields.
func TestChatRefused(t *testing.T) {
	part := func(p string) string { return `{"role":"user","content":[` + p + `]}` }
	for message, want := range map[string]string{
		`{"role":"critic","content":"x"}`:                                                              "messages[0].role: must be system, developer, user, assistant or tool",
		`{"role":"user"}`:                                                                              "messages[0].content: is missing",
		`{"role":"tool","content":"x"}`:                                                                "messages[0].tool_call_id: is missing",
		`{"role":"tool","content":"x","tool_call_id":"gone"}`:                                          "messages[0].tool_call_id: must be the id of a tool call in an assistant's message before it",
		`{"content":"x","tool_call_id":"gone","role":"tool"}`:                                          "messages[0].tool_call_id: must be the id of a tool call",
		`{"role":"assistant","tool_calls":{}}`:                                                         "messages[0].tool_calls: must be an array, not an object",
		`{"role":"assistant","tool_calls":["f"]}`:                                                      "messages[0].tool_calls[0]: must be an object, not a string",
		part(`{"type":"smell"}`):                                                                       "messages[0].content[0].type: is a type of content that does not exist here",
		part(`{"x":1,"type":"smell"}`):                                                                 "messages[0].content[0].type: is a type of content",
		part(`{"type":"text"}`):                                                                        "messages[0].content[0].text: is missing",
		part(`{"type":"image_url"}`):                                                                   "messages[0].content[0].image_url: is missing",
		part(`{"type":"input_audio","input_audio":{"data":5}}`):                                        "messages[0].content[0].input_audio.data: must be base64",
		part(`{"type":"input_audio","input_audio":{"data":"a b","format":"mp3"}}`):                     "messages[0].content[0].input_audio.data: must be base64",
		part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,%%%"}}`):                   "messages[0].content[0].image_url.url: holds data that is no base64",
		part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}`):                      "messages[0].content[0].image_url.url: holds data that is no base64",
		part(`{"type":"image_url","image_url":{"url":"data:image/png"}}`):                              "messages[0].content[0].image_url.url: is a data: address without data",
		part(`{"type":"image_url","image_url":"http://169.254.169.254/latest"}`):                       "messages[0].content[0].image_url: is a link-local or metadata address",
		part(`{"type":"image_url","image_url":{"url":"http://0xa9fea9fe/x"}}`):                         "messages[0].content[0].image_url.url: is a link-local or metadata address",
		part(`{"type":"image_url","image_url":{"url":"HTTP://u@[::ffff:169.254.169.254]:80/x"}}`):      "messages[0].content[0].image_url.url: is a link-local or metadata address",
		part(`{"type":"image_url","image_url":{"url":"http:\/\/metadata.google.internal\/x"}}`):        "messages[0].content[0].image_url.url: is a link-local or metadata address",
		part(`{"type":"image_url","image_url":{"url":"http:\\169.254.169.254/x"}}`):                    "messages[0].content[0].image_url.url: is",
		part(`{"type":"image_url","image_url":{"url":"https:///a.png"}}`):                              "messages[0].content[0].image_url.url: is an address without a host",
		part(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`):                          "messages[0].content[0].image_url.url: is the address of a file",
		part(`{"type":"file","file":{"file_data":"data:application/pdf;base64,a"}}`):                   "messages[0].content[0].file.file_data: holds data that is no base64",
		part(`{"type":"input_audio","input_audio":{"data":"http://169.254.169.254/a"}}`):               "messages[0].content[0].input_audio.data: is a link-local",
		part(`{"type":"video_url","video_url":{"url":"http://example.com/a.mp4"}},{"type":"smell"}`):   "messages[0].content[1].type: is a type of content",
		`{"role":"user","content":"x"},{"role":"system","content":[{"type":"text","text":"x"},"and"]}`: "messages[1].content[1]: must be an object with a type, not a string",
	} {
		refused(t, `{"model":"m","messages":[`+message+`]}`, want, ParseChat)
	}
	for extra, want := range map[string]string{
		`"tool_choice":"must"`:                                `tool_choice: must be auto, none, required, or an object that names a function`,
		`"tool_choice":{}`:                                    `tool_choice.type: is missing`,
		`"tool_choice":{"type":"function"}`:                   `tool_choice.function.name: is missing`,
		`"tool_choice":{"type":"function","name":"f"}`:        `tool_choice.function.name: is missing`,
		`"tool_choice":{"type":1}`:                            `tool_choice.type: must be a string, not 1`,
		`"tools":[{"type":"function","function":{}}]`:         `tools[0].function.name: is missing`,
		`"tools":[{"type":"function","function":{"name":1}}]`: `tools[0].function.name: is missing`,
	} {
		refused(t, `{"model":"m","messages":[{"role":"user","content":"x"}],`+extra+`}`, want, ParseChat)
	}
}

func TestResponsesRefused(t *testing.T) {
	part := func(p string) string { return `{"role":"user","content":[` + p + `]}` }
	for item, want := range map[string]string{
		`{"role":"tool","content":"x"}`:                "input[0].role: must be user, assistant, system or developer",
		`{"content":"x"}`:                              "input[0].role: is missing",
		`{"role":"user"}`:                              "input[0].content: is missing",
		`"x"`:                                          "input[0]: must be an object, not a string",
		`{"type":"telegram","text":"x"}`:               "input[0].type: is a type of item that does not exist here",
		`{"type":"item_reference","id":"msg_1"}`:       "input[0]: refers to an item that the gateway did not store; send the item itself",
		`{"type":"function_call_output","output":"x"}`: "input[0]: must be the call_id of a function_call before it",
		`{"type":"function_call_output","call_id":"gone","output":"x"}`: "input[0].call_id: must be the call_id of a function_call before it",
		part(`{"type":"smell"}`):                                                  "input[0].content[0].type: is a type of content",
		part(`{"type":"input_text"}`):                                             "input[0].content[0].text: is missing",
		part(`{"type":"input_image"}`):                                            "input[0].content[0].image_url: is missing",
		part(`{"type":"input_image","image_url":"http://[fe80::1]/x"}`):           "input[0].content[0].image_url: is a link-local",
		part(`{"type":"input_image","image_url":"data:image/png;base64,*"}`):      "input[0].content[0].image_url: holds data that is no base64",
		part(`{"type":"input_file","file_data":"data:application/pdf;base64,*"}`): "input[0].content[0].file_data: holds data that is no base64",
		part(`{"type":"input_file","file_url":"http://169.254.169.254/"}`):        "input[0].content[0].file_url: is a link-local",
		`{"type":"function_call","call_id":"c","name":"f","arguments":""},{"type":"function_call_output","call_id":"d","output":"x"}`: "input[1].call_id: must be",
	} {
		refused(t, `{"model":"m","input":[`+item+`]}`, want, ParseResponses)
	}
	for extra, want := range map[string]string{
		`"store":true`:                      `store: must be false or left out: the gateway stores no answers`,
		`"previous_response_id":"resp_1"`:   `previous_response_id: must be left out`,
		`"background":true`:                 `background: must be false or left out`,
		`"tool_choice":"must"`:              `tool_choice: must be auto, none, required`,
		`"tool_choice":{"type":"function"}`: `tool_choice.name: is missing`,
		`"tool_choice":{"name":"f"}`:        `tool_choice.type: is missing`,
		`"tools":[{"type":"function"}]`:     `tools[0].name: is missing`,
		`"max_output_tokens":0`:             `max_output_tokens: must be an integer from 1`,
	} {
		refused(t, `{"model":"m","input":"x",`+extra+`}`, want, ParseResponses)
	}
	refused(t, `{"model":"m","input":[{"type":"custom_tool_call_output","call_id":"a","output":"x"}]}`, "input[0].call_id: must be the call_id of a custom_tool_call before it", ParseResponses)
	// OpenAI's own tools are no bad input, whatever is yet to come of them.
	for _, item := range []string{
		`{"type":"local_shell_call","call_id":"a","action":{}}`, `{"type":"shell_call_output","call_id":"a","output":[{"stdout":"","stderr":""}]}`,
		`{"type":"tool_search_call","call_id":null,"execution":"server","arguments":{}}`, `{"type":"tool_search_output","call_id":null,"execution":"server","tools":[{"type":"function","name":"x"}]}`,
		`{"type":"mcp_list_tools","tools":[{"name":"x"}]}`, `{"type":"compaction","encrypted_content":"x"}`, `{"type":"computer_call_output","output":{"type":"computer_screenshot"}}`,
	} {
		f, err := ParseResponses([]byte(`{"model":"m","input":[` + item + `]}`))
		if err != nil || len(f.Own) == 0 {
			t.Errorf("%s: %+v %v", item, f, err)
		}
	}
}

func TestMessagesSourcesRefused(t *testing.T) {
	for block, want := range map[string]string{
		`{"type":"image","source":{"type":"url","url":"http://169.254.169.254/x"}}`: "messages[0].content[0].source.url: is a link-local",
		`{"source":{"url":"http://2852039166/","type":"url"},"type":"document"}`:    "messages[0].content[0].source.url: is a link-local",
		`{"type":"image","source":{"type":"url"}}`:                                  "messages[0].content[0].source.url: is missing",
		`{"type":"image","source":{"type":"url","url":5}}`:                          "messages[0].content[0].source.url: is missing",
	} {
		refused(t, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`+block+`]}]}`, want, ParseMessages)
	}
	for choice, want := range map[string]string{
		`{"type":"tool"}`: "tool_choice.name: is missing", `{}`: "tool_choice.type: is missing", `"auto"`: "tool_choice: must be an object, not a string", `{"type":"must"}`: "tool_choice: must have a type of auto",
	} {
		refused(t, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tool_choice":`+choice+`}`, want, ParseMessages)
	}
}

// Addresses inside somebody's network are told apart, since only who allows them may fetch them.
func TestInward(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.com/a.png": "[]", "http://127.0.0.1:9/a.png": "[vision]", "http://10.1.2.3/": "[vision]", "http://localhost/": "[vision]", "http://127.1/": "[vision]",
		"data:image/png;base64,aGk=": "[]", "data:,hi": "[]", "aGk=": "[]", "gs://bucket/a.png": "[]",
	} {
		f, err := ParseChat([]byte(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%q}}]}]}`, url)))
		if err != nil || fmt.Sprint(f.Inward) != want {
			t.Errorf("%s: %+v %v", url, f, err)
		}
	}
}

func TestSafeBase64(t *testing.T) {
	for raw, want := range map[string]bool{
		`"aGk="`: true, `"aGk"`: true, `"aG\/v"`: true, `"++//"`: true, `"\/\/\/\/"`: true, `"aGkh"`: true,
		``: false, `""`: false, `"="`: false, `"a"`: false, `"\/"`: false, `"a b="`: false, `"aGk\n"`: false, `"aGk\"`: false, `"aGk-"`: false, `"a=Gk"`: false,
	} {
		if got := SafeBase64([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
	if !SafeBase64([]byte(`"` + strings.Repeat("QUJD", 1000) + `"`)) {
		t.Error("a long one")
	}
}
