package openai

import (
	"context"
	"strconv"
	"testing"

	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
)

// Chat has no field of OpenAI's for it, so reasoning that only its issuer can read was taken for anything
// else, and conversations that hold it went to providers that refuse it.
func TestReasoningThatOnlyItsIssuerReadsIsKnownInChat(t *testing.T) {
	for _, message := range []string{
		`"content":"x","reasoning_details":[{"type":"reasoning.text","text":"Hm"},{"type":"reasoning.encrypted","data":"c2Vj"}]`,
		`"content":"x","thinking_blocks":[{"type":"thinking","thinking":"Hm","signature":"c2Vj"}]`,
		`"content":"x","extra_content":{"google":{"thought_signature":"c2Vj"}}`,
		`"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2Vj"}}}]`,
	} {
		up := upstream.New(t, `200 json:`+strconv.Quote(`{"choices":[{"index":0,"message":{"role":"assistant",`+message+`},"finish_reason":"stop"}]}`),
			`200 sse body:`+strconv.Quote(`data: {"choices":[{"index":0,"delta":{"role":"assistant",`+message+`}}]}`+"\n\n"+`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"))
		adapter := newAdapter(t)
		answer, failure := adapter.Complete(context.Background(), newCall(t, up.URL, ""))
		if failure != nil {
			t.Fatal(failure)
		}
		if string(answer.Sealed) != `"c2Vj"` {
			t.Errorf("plain: %s of %s", answer.Sealed, message)
		}
		if r := relay(t, adapter, context.Background(), newCall(t, up.URL, streaming)); string(r.result.Sealed) != `"c2Vj"` {
			t.Errorf("stream: %s of %s", r.result.Sealed, message)
		}
		facts, failed := llm.ParseChat([]byte(`{"model":"m","messages":[{"role":"assistant",` + message + `},{"role":"user","content":"x"}]}`))
		if failed != nil || string(facts.Replayed) != `"c2Vj"` {
			t.Errorf("replayed: %s of %s, %v", facts.Replayed, message, failed)
		}
	}
}
