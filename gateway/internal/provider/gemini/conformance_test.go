package gemini

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/providertest"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for model, folder := range map[string]string{"gemini-2.5-pro": "", "gemini-3-pro": "third"} {
		providertest.Run(t, &providertest.Protocol{
			New: func(transports *provider.Transports) provider.Adapter {
				return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
			},
			Base: "/v1beta", Path: "/models/" + model + ":generateContent", StreamPath: "/models/" + model + ":streamGenerateContent", Model: model,
			Golden: folder, About: map[string]string{"": "Gemini 2.5", "third": "Gemini 3"}[folder], NoMarker: true, Speech: providertest.Gemini,
		})
	}
}

// What Google says in ways of its own.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want llm.Finish
	}{
		"a blocked prompt": {`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}`, llm.FinishFilter},
		"no content":       {`{"candidates":[{"finishReason":"MAX_TOKENS"}]}`, llm.FinishLength},
	} {
		p := newProtocol(t)
		r, err := p(tc.body)
		if err != nil || r.Finish != tc.want || len(r.Parts) != 0 {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	r, err := newProtocol(t)(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f","args":{"a":1}}}]},"finishReason":"STOP"}],"responseId":"x","usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":2,"thoughtsTokenCount":5,"toolUsePromptTokenCount":1}}`)
	if err != nil || string(r.Parts[0].ID) != `"call_x_0"` || string(r.Parts[1].ID) != `"call_x_1"` || r.Finish != llm.FinishTools {
		t.Fatalf("%+v %v", r, err)
	}
	if want := (llm.Usage{InputTokens: 11, CachedInputTokens: 4, OutputTokens: 7, ReasoningTokens: 5, Source: "reported"}); r.Usage != want {
		t.Errorf("%+v", r.Usage)
	}
	if r, _ = newProtocol(t)(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":-1}}`); r.Usage.Flag != "usage_negative" {
		t.Errorf("%+v", r.Usage)
	}
}

func newProtocol(t *testing.T) func(body string) (*llm.Response, error) {
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	a := New(transports, "x", time.Now)
	return func(body string) (*llm.Response, error) { return a.protocol.Response([]byte(body), 0) }
}

// Without alt=sse a stream comes as one JSON array.
func TestStreamsAskForEvents(t *testing.T) {
	said := providertest.Said{Text: "Hello there", Finish: llm.FinishStop}
	up := upstream.New(t, `200 sse body:`+strconv.Quote(strings.Join(providertest.Gemini.Events(said), "")))
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	facts, failed := llm.ParseChat(body)
	if failed != nil {
		t.Fatal(failed)
	}
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	s, failure := New(transports, "x", time.Now).Stream(context.Background(), &provider.Call{
		Endpoint: attempt.EndpointChat, Facts: facts, Body: body, Model: "m", UpstreamModel: "tunedModels/mine", Secret: "AIza-0123456789",
		Target: &provider.Target{Provider: "p", BaseURL: up.URL + "/v1beta", AllowPrivate: true},
	})
	if failure != nil {
		t.Fatal(failure)
	}
	s.Close()
	sent := up.Calls()[0]
	if sent.Path != "/v1beta/tunedModels/mine:streamGenerateContent" || sent.Query != "alt=sse" || sent.Header.Get("X-Goog-Api-Key") != "AIza-0123456789" || sent.Header.Get("Authorization") != "" {
		t.Errorf("%s ? %s %v", sent.Path, sent.Query, sent.Header)
	}
}

// An image comes as one event, which is larger than any of other protocols' streams.
func TestImagesAreStreamedThoughTheyAreLarge(t *testing.T) {
	image := strings.Repeat("aGVsbG8h", 3<<17)
	up := upstream.New(t, `200 sse body:`+strconv.Quote(`data: {"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"`+image+`"}}]},"finishReason":"STOP"}],"responseId":"r"}`+"\n\n"))
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Draw"}]}`)
	facts, failed := llm.ParseChat(body)
	if failed != nil {
		t.Fatal(failed)
	}
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	s, failure := New(transports, "x", time.Now).Stream(context.Background(), &provider.Call{
		Endpoint: attempt.EndpointChat, Facts: facts, Body: body, Model: "m", UpstreamModel: "m",
		Target: &provider.Target{Provider: "p", BaseURL: up.URL + "/v1beta", AllowPrivate: true},
	})
	if failure != nil {
		t.Fatal(failure)
	}
	defer s.Close()
	c, err := s.Next()
	if err != nil || !c.Output || !strings.Contains(string(c.Data), `"url":"data:image/png;base64,`+image+`"`) {
		t.Errorf("%d bytes, %v", len(c.Data), err)
	}
}
