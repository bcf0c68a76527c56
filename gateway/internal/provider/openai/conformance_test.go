package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/providertest"
	"turnout/gateway/llm"
	"turnout/gateway/llm/responses"
	"turnout/schemas/attempt"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, &providertest.Protocol{
		New: func(transports *provider.Transports) provider.Adapter {
			return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
		},
		Base: "/v1", Path: "/chat/completions", StreamPath: "/chat/completions", Model: "gpt-x", Native: attempt.EndpointChat,
		Plain: plainAnswer, Events: chunksOf, Failed: failed, FailedEvent: "data: " + failed + "\n\n",
	})
}

// Upstreams that speak Responses themselves.
func TestResponsesConformance(t *testing.T) {
	providertest.Run(t, &providertest.Protocol{
		New: func(transports *provider.Transports) provider.Adapter {
			return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
		},
		Base: "/v1", Path: "/responses", StreamPath: "/responses", Model: "gpt-x", About: "providers that speak Responses themselves", Endpoints: []string{attempt.EndpointResponses}, NoMarker: true,
		Golden: "native", Plain: plainResponse, Events: responseEvents, Failed: failed,
		FailedEvent: "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"The server had an error\",\"param\":null,\"sequence_number\":9}\n\n",
	})
}

// plainResponse and responseEvents are written by the gateway's own encoder, whose form the surface's
// other tests check.
func plainResponse(s providertest.Said) string {
	return string(responses.AppendResponse(nil, s.Response(), llm.Stamp{ID: "1", Model: "gpt-x", Created: 1}))
}

func responseEvents(s providertest.Said) []string {
	enc := responses.NewEncoder(llm.Stamp{ID: "1", Model: "gpt-x", Created: 1}, true)
	var out []byte
	s.Stream(func(e *llm.Event) { out = enc.Append(out, e) })
	out, _ = enc.End(out, &s.Usage)
	return strings.SplitAfter(strings.TrimSuffix(string(out), "\n\n")+"\n\n", "\n\n")[:strings.Count(string(out), "\n\n")]
}

const failed = `{"error":{"message":"The server had an error","type":"server_error","code":null}}`

var reasons = map[llm.Finish]string{llm.FinishStop: "stop", llm.FinishLength: "length", llm.FinishTools: "tool_calls", llm.FinishFilter: "content_filter"}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func usageOf(u llm.Usage) string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		u.InputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens, u.CachedInputTokens)
}

func plainAnswer(s providertest.Said) string {
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
		usage = "," + usageOf(s.Usage)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":%s},"finish_reason":%q}]%s}`, message, reasons[s.Finish], usage)
}

func chunksOf(s providertest.Said) (out []string) {
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
	add(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reasons[s.Finish]), "")
	if s.Usage.Source != "" {
		add("", ","+usageOf(s.Usage))
	}
	return append(out, "data: [DONE]\n\n")
}
