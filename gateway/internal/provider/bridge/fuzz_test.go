package bridge

import (
	"bytes"
	"encoding/json"
	"testing"

	"turnout/gateway/llm"
	"turnout/gateway/llm/bedrock"
	"turnout/gateway/llm/chat"
	"turnout/gateway/llm/gemini"
	"turnout/gateway/llm/messages"
	"turnout/schemas/attempt"
)

var parse = map[string]func([]byte) (*llm.Facts, *llm.APIError){
	attempt.EndpointChat: llm.ParseChat, attempt.EndpointMessages: llm.ParseMessages, attempt.EndpointResponses: llm.ParseResponses,
}

var write = map[string]func([]byte, *llm.Request, llm.Sending) ([]byte, []string){
	"openai": chat.Append, "anthropic": messages.Append, "gemini": gemini.Append, "bedrock": bedrock.Append,
}

// FuzzRequests: whatever a surface accepts becomes valid JSON in every protocol, or is refused.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}],"stop":"x","temperature":2}`,
		`{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"i/p","data":"aGk="}}]}]}],"thinking":{"type":"enabled","budget_tokens":2048}}`,
		`{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"},{"type":"function_call_output","call_id":"c","output":"\ud83d"}],"tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"}}`,
		`{"model":"m","tools":[{"type":"namespace","name":"s","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}}]},{"type":"tool_search","execution":"client"}],"input":[{"type":"additional_tools","tools":[{"type":"function","name":"g"}]},{"type":"custom_tool_call","call_id":"c","namespace":"s","name":"p","input":"\ud83d"},{"type":"custom_tool_call_output","call_id":"c","output":"a"},{"type":"custom_tool_call_output","call_id":"c","output":"b"},{"type":"tool_search_call","call_id":"d","arguments":{"query":"q"}},{"type":"tool_search_output","call_id":"d","tools":[{"type":"custom","name":"h"}]}]}`,
		`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"assistant","content":"x","images":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,aGk="}}]},{"role":"system","content":"b"},{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/plain;base64,/w=="}}]}],"modalities":["image"],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","oneOf":[{"minimum":1}],"properties":{"a\"b":{"minItems":3,"items":{}}}}}},"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{ }}}]}`,
		`{"model":"m","input":[{"type":"image_generation_call","output_format":"we\u0000bp","result":"aGk="},{"role":"developer","content":"x"}],"text":{"verbosity":"low"}}`,
		`{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":"y"},{"role":"assistant","tool_calls":[{"id":null,"function":{"name":null}}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for endpoint, s := range surfaces {
			if _, err := parse[endpoint](body); err != nil {
				continue
			}
			r, failure := s.request(body)
			if failure != nil {
				if failure.Class != attempt.ClientError || failure.Message == "" {
					t.Fatalf("%s: %v", endpoint, failure)
				}
				continue
			}
			for protocol, append := range write {
				for _, model := range []string{"claude-sonnet-4-5", "amazon.nova-2-lite"} {
					if out, _ := append(nil, r, llm.Sending{Model: model, MaxTokens: 5000}); !json.Valid(out) {
						t.Fatalf("%s to %s %s: %s\nfrom %s", endpoint, protocol, model, out, body)
					}
				}
			}
		}
	})
}

// FuzzAnswers: whatever an upstream sends becomes events and answers of valid JSON, or a failure.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"id":"x","choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]},"message":{"content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":"[1"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{"a":1}}}`,
		`{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"input\":\"\\ud83d\\u12\"}"}}]},"finish_reason":"stop"}]}`,
		`{"type":"message","content":[{"type":"thinking","thinking":"x"},{"type":"tool_use"}],"stop_reason":"stop_sequence","stop_sequence":"s","usage":{"input_tokens":1,"output_tokens":2}}`,
		`{"output":{"message":{"content":[{"text":"x"},{"toolUse":{"toolUseId":"a","name":"b","input":{}}},{"reasoningContent":{"reasoningText":{"text":"t","signature":"c2ln"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"cacheDetails":[{"ttl":"1h","inputTokens":3}]},"contentBlockIndex":0,"start":{"toolUse":{"name":"b","toolUseId":"a"}},"delta":{"text":"x","toolUse":{"input":"{"},"reasoningContent":{"redactedContent":"eHg="}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"x","thought":true},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		stamp := llm.Stamp{ID: "1", Model: "m", Tools: []llm.Tool{
			{Kind: llm.ToolFreeform, Space: llm.Raw(`"s"`), Own: llm.Raw(`"g"`), Name: llm.Raw(`"f"`)}, {Kind: llm.ToolSearch, Name: llm.Raw(`"n"`)},
		}}
		for _, read := range []func([]byte, int64) (*llm.Response, error){chat.DecodeResponse, messages.DecodeResponse, gemini.DecodeResponse, bedrock.DecodeResponse} {
			r, err := read(body, 0)
			if err != nil {
				continue
			}
			for endpoint, s := range surfaces {
				if out := s.answer(nil, r, stamp); !json.Valid(out) {
					t.Fatalf("%s: %s\nfrom %s", endpoint, out, body)
				}
			}
		}
		for _, decoder := range []func() Decoder{
			func() Decoder { return chat.NewDecoder(0) }, func() Decoder { return messages.NewDecoder(0) }, func() Decoder { return gemini.NewDecoder(0) },
			func() Decoder { return bedrock.NewDecoder(0) },
		} {
			for endpoint, s := range surfaces {
				d, enc := decoder(), s.stream(stamp, true)
				var out []byte
				for _, name := range []string{"contentBlockStart", "contentBlockDelta", "metadata", "messageStop"} { // Bedrock's; the others go without
					_ = d.Take([]byte(name), body, func(e *llm.Event) { out = enc.Append(out, e) })
				}
				usage := d.Usage()
				out, at := enc.End(out, &usage)
				if at <= 0 || at > len(out) {
					t.Fatalf("%s: metadata at %d of %d", endpoint, at, len(out))
				}
				events(t, endpoint, out)
			}
		}
	})
}

// events checks that the data of every event are valid JSON.
func events(t *testing.T, endpoint string, out []byte) {
	for _, line := range bytes.Split(out, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && string(data) != "[DONE]" && !json.Valid(data) {
			t.Fatalf("%s: %s", endpoint, data)
		}
	}
}
