package providertest

import (
	"fmt"
	"strings"

	"turnout/gateway/llm"
)

// Messages is Anthropic's.
var Messages = Speech{Plain: messagesPlain, Events: messagesEvents, Failed: messagesFailed, FailedEvent: "event: error\ndata: " + messagesFailed + "\n\n"}

const messagesFailed = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`

var messagesReasons = map[llm.Finish]string{llm.FinishStop: "end_turn", llm.FinishLength: "max_tokens", llm.FinishTools: "tool_use", llm.FinishFilter: "refusal"}

func messagesUsageText(u llm.Usage) string {
	if u.Source == "" {
		return ""
	}
	return fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`,
		u.InputTokens-u.CachedInputTokens-u.CacheWriteTokens, u.CacheWriteTokens, u.CachedInputTokens, u.OutputTokens)
}

func messagesPlain(s Said) string {
	var blocks []string
	if s.Thinking != "" {
		blocks = append(blocks, `{"type":"thinking","thinking":`+quoted(s.Thinking)+`,"signature":"c2ln"}`)
	}
	if s.Text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quoted(s.Text)+`}`)
	}
	for _, c := range s.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Arguments))
	}
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[%s],"stop_reason":%q,"stop_sequence":null%s}`,
		strings.Join(blocks, ","), messagesReasons[s.Finish], messagesUsageText(s.Usage))
}

func messagesEvents(s Said) (out []string) {
	add := func(kind, rest string) {
		out = append(out, fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest))
	}
	first := s.Usage
	first.OutputTokens = 1
	add("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null`+messagesUsageText(first)+`}`)
	add("ping", "")
	n := 0
	block := func(head string, deltas ...string) {
		add("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, n, head))
		for _, d := range deltas {
			add("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, n, d))
		}
		add("content_block_stop", fmt.Sprintf(`,"index":%d`, n))
		n++
	}
	if s.Thinking != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":`+quoted(s.Thinking)+`}`, `{"type":"signature_delta","signature":"c2ln"}`)
	}
	if s.Text != "" {
		half := strings.LastIndexByte(s.Text, ' ') + 1
		block(`{"type":"text","text":""}`, `{"type":"text_delta","text":`+quoted(s.Text[:half])+`}`, `{"type":"text_delta","text":`+quoted(s.Text[half:])+`}`)
	}
	for _, c := range s.Calls {
		head := fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name)
		if c.Arguments == "{}" {
			block(head, `{"type":"input_json_delta","partial_json":""}`)
		} else {
			block(head, `{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":`+quoted(c.Arguments[:5])+`}`, `{"type":"input_json_delta","partial_json":`+quoted(c.Arguments[5:])+`}`)
		}
	}
	add("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null}%s`, messagesReasons[s.Finish], messagesUsageText(s.Usage)))
	add("message_stop", "")
	return out
}
