package openai

import (
	"context"
	"strconv"
	"testing"

	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
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

// A conversation that another protocol's provider began holds reasoning whose ids OpenAI does not know: it
// answered 404.
func TestReasoningOfATranslationIsNotSentToOpenAI(t *testing.T) {
	const (
		own   = `{"type":"reasoning","id":"rs_1","summary":[]}`
		told  = `{"id":"rs_turnout_5_0","type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]}`
		seal  = `{"type":"reasoning","summary":[],"encrypted_content":"turnout-signed:c2ln"}`
		asked = `{"role":"user","content":"x"}`
	)
	for input, want := range map[string]string{
		asked + `, ` + told + `,` + own + `,` + seal: asked + `, ` + own,
		told + ` ,` + asked:                          asked,
		own + `,` + asked:                            own + `,` + asked,
	} {
		up := upstream.New(t, `200 json:`+strconv.Quote(`{"id":"r","model":"up","output":[],"status":"completed"}`))
		body := func(input string) string { return `{"model":"upstream-model","input":[` + input + `],"store":false}` }
		facts, failed := llm.ParseResponses([]byte(body(input)))
		if failed != nil {
			t.Fatal(failed)
		}
		call := newCall(t, up.URL, "")
		call.Endpoint, call.Facts, call.Body = attempt.EndpointResponses, facts, []byte(body(input))
		call.Target.Endpoints = []string{attempt.EndpointResponses}
		if _, failure := newAdapter(t).Complete(context.Background(), call); failure != nil {
			t.Fatal(failure)
		}
		if sent := string(up.Calls()[0].Body); sent != body(want) || (len(call.Stripped) == 1) != (input != want) {
			t.Errorf("sent %s, want %s (%v)", sent, body(want), call.Stripped)
		}
	}
}
