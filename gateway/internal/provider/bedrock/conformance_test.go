package bedrock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"go.uber.org/goleak"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/providertest"
	"turnout/gateway/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAdapter(transports *provider.Transports) provider.Adapter {
	return New(transports, "turnout/test", func() time.Time { return noon })
}

func TestConformance(t *testing.T) {
	for model, folder := range map[string]string{"us.anthropic.claude-sonnet-4-5-20250929-v1:0": "", "amazon.nova-2-lite-v1:0": "nova"} {
		providertest.Run(t, &providertest.Protocol{
			New: newAdapter, Path: "/model/" + model + "/converse", StreamPath: "/model/" + model + "/converse-stream", Model: model,
			Golden: folder, About: map[string]string{"": "Claude on Bedrock", "nova": "Nova on Bedrock"}[folder], Speech: providertest.Speech{Plain: plain, Events: events, Failed: failed, FailedEvent: exception("internalServerException", "The system encountered an unexpected error during processing.")},
		})
	}
}

const failed = `{"__type":"InternalServerException","message":"The system encountered an unexpected error during processing."}`

var reasons = map[llm.Finish]string{llm.FinishStop: "end_turn", llm.FinishTools: "tool_use", llm.FinishLength: "max_tokens", llm.FinishFilter: "guardrail_intervened"}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func usage(u llm.Usage) string {
	if u.Source == "" {
		return ""
	}
	return fmt.Sprintf(`"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":0}`,
		u.InputTokens-u.CachedInputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens, u.CachedInputTokens)
}

func plain(s providertest.Said) string {
	var blocks []string
	if s.Thinking != "" {
		blocks = append(blocks, `{"reasoningContent":{"reasoningText":{"text":`+quoted(s.Thinking)+`,"signature":"c2ln"}}}`)
	}
	if s.Text != "" {
		blocks = append(blocks, `{"text":`+quoted(s.Text)+`}`)
	}
	for _, c := range s.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, c.ID, c.Name, c.Arguments))
	}
	end := ""
	if u := usage(s.Usage); u != "" {
		end = "," + u
	}
	return `{"metrics":{"latencyMs":5},"output":{"message":{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}},"stopReason":"` + reasons[s.Finish] + `"` + end + `}`
}

// frame is a message as the SDK writes it.
func frame(payload string, headers ...string) string {
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

func named(kind, payload string) string {
	return frame(payload, ":event-type", kind, ":content-type", "application/json", ":message-type", "event")
}

func exception(kind, message string) string {
	return frame(`{"message":`+quoted(message)+`}`, ":exception-type", kind, ":content-type", "application/json", ":message-type", "exception")
}

func events(s providertest.Said) (out []string) {
	n := 0
	add := func(kind, payload string) { out = append(out, named(kind, payload)) }
	delta := func(d string) {
		add("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s,"p":"abcdef"}`, n, d))
	}
	stop := func() {
		add("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d,"p":"ab"}`, n))
		n++
	}
	pieces := func(text, format string) {
		half := strings.LastIndexByte(text, ' ') + 1
		for _, piece := range []string{text[:half], text[half:]} {
			delta(fmt.Sprintf(format, quoted(piece)))
		}
	}
	add("messageStart", `{"p":"abc","role":"assistant"}`)
	if s.Thinking != "" {
		pieces(s.Thinking, `{"reasoningContent":{"text":%s}}`)
		delta(`{"reasoningContent":{"signature":"c2ln"}}`)
		stop()
	}
	if s.Text != "" {
		pieces(s.Text, `{"text":%s}`)
		stop()
	}
	for _, c := range s.Calls {
		add("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":{"toolUse":{"name":%q,"toolUseId":%q}}}`, n, c.Name, c.ID))
		if c.Arguments != "{}" { // a call without arguments comes without a piece
			delta(`{"toolUse":{"input":""}}`)
			pieces(c.Arguments, `{"toolUse":{"input":%s}}`)
		}
		stop()
	}
	add("messageStop", `{"additionalModelResponseFields":{"stop_sequence":null},"stopReason":"`+reasons[s.Finish]+`"}`)
	if u := usage(s.Usage); u != "" {
		add("metadata", `{"metrics":{"latencyMs":5},`+u+`}`)
	}
	return out
}
