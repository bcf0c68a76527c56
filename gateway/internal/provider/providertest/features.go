package providertest

import (
	"strings"

	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

var simple = map[string]string{
	attempt.EndpointChat:      `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`,
	attempt.EndpointMessages:  `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}`,
	attempt.EndpointResponses: `{"model":"m","store":false,"input":"Hello"}`,
}

func streaming(endpoint string) string {
	extra := `{"stream":true,`
	if endpoint == attempt.EndpointChat {
		extra += `"stream_options":{"include_usage":true},`
	}
	return strings.Replace(simple[endpoint], "{", extra, 1)
}

const (
	schema = `{"type":"object","properties":{"path":{"type":"string","description":"caf\u00e9"}},"required":["path"]}`
	image  = "aGVsbG8="
)

// feature is what a request may ask for, in the words of each surface that has them.
type feature struct {
	name   string
	bodies map[string]string
	needs  string // the capability without which a mapping is no candidate (resource.Cap*)
}

// file is the feature's golden file.
func (f feature) file() string {
	return strings.NewReplacer(" ", "_", ",", "").Replace(f.name) + ".txt"
}

// needing names the capability that a feature needs.
func (f feature) needing(capability string) feature {
	f.needs = capability
	return f
}

func say(name, chat, messages, responses string) feature {
	f := feature{name: name, bodies: map[string]string{}}
	add := func(endpoint, head, rest string) {
		if rest != "" {
			f.bodies[endpoint] = head + rest
		}
	}
	add(attempt.EndpointChat, `{"model":"m",`, chat)
	add(attempt.EndpointMessages, `{"model":"m","max_tokens":4000,`, messages)
	add(attempt.EndpointResponses, `{"model":"m","store":false,`, responses)
	return f
}

const (
	chatHi      = `"messages":[{"role":"user","content":"Hi"}]`
	messagesHi  = chatHi
	responsesHi = `"input":"Hi"`
)

var features = []feature{
	say("text", chatHi+`}`, messagesHi+`}`, responsesHi+`}`),
	say("system",
		`"messages":[{"role":"system","content":"Be kind"},{"role":"developer","content":[{"type":"text","text":"Be brief"}]},{"role":"user","content":"Hi"}]}`,
		`"system":[{"type":"text","text":"Be kind","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be brief"}],`+messagesHi+`}`,
		`"instructions":"Be kind","input":[{"role":"developer","content":"Be brief"},{"role":"user","content":"Hi"}]}`),
	say("multi-turn",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello \u201cyou\u201d\n"},{"role":"user","content":[{"type":"text","text":"And"},{"type":"text","text":"now?"}]}]}`,
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello \u201cyou\u201d\n"},{"role":"user","content":[{"type":"text","text":"And"},{"type":"text","text":"now?"}]}]}`,
		`"input":[{"role":"user","content":"Hi"},{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"Hello \u201cyou\u201d\n","annotations":[]}]},{"role":"user","content":[{"type":"input_text","text":"And"},{"type":"input_text","text":"now?"}]}]}`),
	say("image by url",
		`"messages":[{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"high"}}]}]}`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}]}`,
		`"input":[{"role":"user","content":[{"type":"input_text","text":"What?"},{"type":"input_image","image_url":"https://example.com/a.png","detail":"high"}]}]}`),
	say("image by data",
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+image+`"}}]}]}`,
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+image+`"}}]}]}`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,`+image+`"}]}]}`),
	say("document",
		`"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,`+image+`"}},{"type":"text","text":"Sum up"}]}]}`,
		`"messages":[{"role":"user","content":[{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"`+image+`"}},{"type":"text","text":"Sum up"}]}]}`,
		`"input":[{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,`+image+`"},{"type":"input_text","text":"Sum up"}]}]}`),
	say("document of text", "",
		`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"Once upon a time"}},{"type":"text","text":"Sum up"}]}]}`, ""),
	say("audio", `"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"`+image+`","format":"mp3"}}]}]}`, "", "").needing(resource.CapAudio),
	say("tools",
		chatHi+`,"tools":[{"type":"function","function":{"name":"read","description":"Reads","parameters":`+schema+`,"strict":true}},{"type":"function","function":{"name":"now"}}]}`,
		messagesHi+`,"tools":[{"name":"read","description":"Reads","input_schema":`+schema+`,"strict":true},{"name":"now","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`,
		responsesHi+`,"tools":[{"type":"function","name":"read","description":"Reads","parameters":`+schema+`,"strict":true},{"type":"function","name":"now","parameters":null}]}`),
	say("tool results",
		`"messages":[{"role":"user","content":"Read both"},{"role":"assistant","content":"I do","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a \\\"b\\\"\"}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":""}}]},{"role":"tool","tool_call_id":"c1","content":"A"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"B"}]},{"role":"user","content":"Well?"}],"tools":[{"type":"function","function":{"name":"read"}}]}`,
		`"messages":[{"role":"user","content":"Read both"},{"role":"assistant","content":[{"type":"text","text":"I do"},{"type":"tool_use","id":"c1","name":"read","input":{"path":"a \"b\""}},{"type":"tool_use","id":"c2","name":"read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"A"},{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"B"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+image+`"}}]},{"type":"text","text":"Well?"}]}],"tools":[{"name":"read","input_schema":{"type":"object"}}]}`,
		`"input":[{"role":"user","content":"Read both"},{"role":"assistant","content":"I do"},{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":\"a \\\"b\\\"\"}"},{"type":"function_call","call_id":"c2","name":"read","arguments":""},{"type":"function_call_output","call_id":"c1","output":"A"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"B"}]},{"role":"user","content":"Well?"}],"tools":[{"type":"function","name":"read","parameters":{"type":"object"}}]}`),
	say("arguments that are no object", `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{broken"}}]},{"role":"tool","tool_call_id":"c1","content":"no"}]}`, "", ""),
	say("tool_choice none",
		chatHi+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"}`,
		messagesHi+`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"}}`,
		responsesHi+`,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"none"}`),
	say("tool_choice required, one at a time",
		chatHi+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","parallel_tool_calls":false}`,
		messagesHi+`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`,
		responsesHi+`,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"required","parallel_tool_calls":false}`),
	say("tool_choice named, with reasoning",
		chatHi+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"reasoning_effort":"high"}`,
		messagesHi+`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}}`,
		responsesHi+`,"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":{"type":"function","name":"f"},"reasoning":{"effort":"high"}}`),
	say("json object", chatHi+`,"response_format":{"type":"json_object"}}`, "", responsesHi+`,"text":{"format":{"type":"json_object"}}}`).needing(resource.CapJSONObject),
	say("json schema",
		chatHi+`,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":`+schema+`,"strict":true}}}`,
		messagesHi+`,"output_config":{"format":{"type":"json_schema","schema":`+schema+`}}}`,
		responsesHi+`,"text":{"format":{"type":"json_schema","name":"a","schema":`+schema+`,"strict":true}}}`),
	say("effort",
		chatHi+`,"reasoning_effort":"low","max_completion_tokens":9000,"temperature":0.5}`,
		messagesHi+`,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"},"temperature":1}`,
		responsesHi+`,"reasoning":{"effort":"low","summary":"auto"},"max_output_tokens":9000}`),
	say("budget", "", messagesHi+`,"thinking":{"type":"enabled","budget_tokens":2048}}`, ""),
	say("no reasoning", chatHi+`,"reasoning_effort":"none"}`, messagesHi+`,"thinking":{"type":"disabled"}}`, responsesHi+`,"reasoning":{"effort":"none"}}`),
	say("reasoning in the history",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"Hm","content":"Hello"},{"role":"user","content":"And?"}],"reasoning_effort":"low"}`,
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"c2ln"},{"type":"redacted_thinking","data":"eHg="},{"type":"text","text":"Hello"}]},{"role":"user","content":"And?"}]}`,
		`"input":[{"role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"c2Vj"},{"role":"assistant","content":"Hello"},{"role":"user","content":"And?"}]}`),
	say("unsigned reasoning", "",
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":""},{"type":"text","text":"Hello"}]},{"role":"user","content":"And?"}]}`, ""),
	say("sampling",
		chatHi+`,"temperature":1.5,"top_p":0.9,"seed":7,"frequency_penalty":0.1,"presence_penalty":0.2,"logit_bias":{"1":2},"logprobs":true,"top_logprobs":2,"n":1}`,
		messagesHi+`,"temperature":0.25,"top_p":0.9,"top_k":40}`,
		responsesHi+`,"temperature":0.25,"top_p":0.9,"top_logprobs":2}`),
	say("verbosity", chatHi+`,"verbosity":"low"}`, "", responsesHi+`,"text":{"verbosity":"low"}}`),
	say("two choices", chatHi+`,"n":2}`, "", "").needing(resource.CapN),
	say("web search",
		chatHi+`,"web_search_options":{}}`,
		messagesHi+`,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
		responsesHi+`,"tools":[{"type":"web_search"}]}`).needing(resource.CapWebSearch),
	say("stop", chatHi+`,"stop":["a","\n\n"],"max_tokens":10}`, messagesHi+`,"stop_sequences":["a","\n\n"]}`, ""),
	say("one stop", chatHi+`,"stop":"END"}`, "", ""),
	say("user and tier",
		chatHi+`,"user":"u1","service_tier":"default","metadata":{"a":"b"},"store":false,"made_up":1}`,
		messagesHi+`,"metadata":{"user_id":"u1"},"service_tier":"standard_only","context_management":{"edits":[]}}`,
		responsesHi+`,"user":"u1","metadata":{"a":"b"},"service_tier":"default","prompt_cache_key":"k","include":["reasoning.encrypted_content"],"truncation":"disabled","made_up":1}`),
	say("ours",
		chatHi+`,"routing":"price","free_models_only":false,"no_reasoning":true,"session_id":"s"}`,
		messagesHi+`,"routing":"price","no_reasoning":true}`,
		responsesHi+`,"routing":"price","no_reasoning":true}`),
}
