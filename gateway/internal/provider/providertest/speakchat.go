package providertest

import (
	"fmt"
	"strings"

	"turnout/gateway/llm"
)

// Chat is OpenAI's chat completions.
var Chat = Speech{Plain: chatPlain, Events: chatEvents, Failed: chatFailed, FailedEvent: "data: " + chatFailed + "\n\n"}

const chatFailed = `{"error":{"message":"The server had an error","type":"server_error","code":null}}`

var chatReasons = map[llm.Finish]string{llm.FinishStop: "stop", llm.FinishLength: "length", llm.FinishTools: "tool_calls", llm.FinishFilter: "content_filter"}

func chatUsageText(u llm.Usage) string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		u.InputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens, u.CachedInputTokens)
}

func chatPlain(s Said) string {
	message := `{"role":"assistant","content":` + quoted(s.Text)
	if s.Text == "" {
		message = `{"role":"assistant","content":null`
	}
	if s.Thinking != "" {
		message += `,"reasoning_content":` + quoted(s.Thinking)
	}
	var calls []string
	for _, c := range s.Calls {
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.ID, c.Name, quoted(c.Arguments)))
	}
	if calls != nil {
		message += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	usage := ""
	if s.Usage.Source != "" {
		usage = "," + chatUsageText(s.Usage)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":%s},"finish_reason":%q}]%s}`, message, chatReasons[s.Finish], usage)
}

func chatEvents(s Said) (out []string) {
	add := func(choices, rest string) {
		out = append(out, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[`+choices+`]`+rest+"}\n\n")
	}
	delta := func(format string, a ...any) {
		add(`{"index":0,"delta":{`+fmt.Sprintf(format, a...)+`},"finish_reason":null}`, "")
	}
	delta(`"role":"assistant","content":""`)
	if s.Thinking != "" {
		delta(`"reasoning_content":%s`, quoted(s.Thinking))
	}
	if s.Text != "" {
		half := strings.LastIndexByte(s.Text, ' ') + 1
		for _, piece := range []string{s.Text[:half], s.Text[half:]} {
			if piece != "" {
				delta(`"content":%s`, quoted(piece))
			}
		}
	}
	for i, c := range s.Calls {
		delta(`"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]`, i, c.ID, c.Name)
		for len(c.Arguments) > 0 {
			n := min(len(c.Arguments), 7)
			delta(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, quoted(c.Arguments[:n]))
			c.Arguments = c.Arguments[n:]
		}
	}
	add(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, chatReasons[s.Finish]), "")
	if s.Usage.Source != "" {
		add("", ","+chatUsageText(s.Usage))
	}
	return append(out, "data: [DONE]\n\n")
}
