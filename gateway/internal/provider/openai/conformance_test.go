package openai

import (
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
		Speech: providertest.Chat,
	})
}

// Upstreams that speak Responses themselves.
func TestResponsesConformance(t *testing.T) {
	providertest.Run(t, &providertest.Protocol{
		New: func(transports *provider.Transports) provider.Adapter {
			return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
		},
		Base: "/v1", Path: "/responses", StreamPath: "/responses", Model: "gpt-x", About: "providers that speak Responses themselves", Endpoints: []string{attempt.EndpointResponses}, NoMarker: true,
		Golden: "native", Speech: providertest.Speech{Plain: plainResponse, Events: responseEvents, Failed: providertest.Chat.Failed,
			FailedEvent: "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"The server had an error\",\"param\":null,\"sequence_number\":9}\n\n"},
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
