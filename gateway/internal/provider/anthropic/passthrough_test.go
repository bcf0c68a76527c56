package anthropic

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

func passed(t *testing.T, up *upstream.Server, body string) (*Adapter, *provider.Call) {
	t.Helper()
	facts, err := llm.ParseMessages([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	return New(transports, "turnout/test", time.Now), &provider.Call{
		Endpoint: attempt.EndpointMessages, Facts: facts, Body: []byte(body), Model: "catalogue/model", UpstreamModel: "up-1",
		Target: &provider.Target{Provider: "p", BaseURL: up.URL + "/v1", AllowPrivate: true}, Secret: "sk-ant-0123456789",
		Header:   map[string][]string{"Anthropic-Beta": {"a-1,b-2"}, "Openai-Beta": {"x"}},
		Timeouts: provider.Timeouts{Connect: time.Second, FirstByte: time.Second, FirstOutput: time.Second, Idle: time.Second, Total: 3 * time.Second},
	}
}

// Whatever the gateway does not know keeps its bytes, white space included.
func TestBytesPassThrough(t *testing.T) {
	const request = `{ "model" : "m", "max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"caf\u00e9","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
	{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"c2ln=="},{"type":"server_tool_use","id":"s1","name":"web_search","input":{ "q":1.0 }}]}], "made_up" : [ 1.50, {"a":null} ]}`
	const answer = `{"id":"msg_1", "type":"message","role":"assistant","model":"up-1","content":[{"type":"thinking","thinking":"x","signature":"QUJD"},{"type":"made_up","x":1.0}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4,"server_tool_use":{"web_search_requests":1}},"container":{ "id":"c"} }`
	up := upstream.New(t, `200 json:`+strconv.Quote(answer))
	a, call := passed(t, up, request)
	got, failure := a.Complete(context.Background(), call)
	if failure != nil {
		t.Fatal(failure)
	}
	if want := strings.Replace(answer, `"up-1"`, `"catalogue/model"`, 1); string(got.Body) != want || string(got.Sealed) != `"QUJD"` {
		t.Errorf("got  %s\nwant %s (%s)", got.Body, want, got.Sealed)
	}
	sent := up.Calls()[0]
	if want := strings.Replace(request, `"m"`, `"up-1"`, 1); string(sent.Body) != want {
		t.Errorf("sent %s\nwant %s", sent.Body, want)
	}
	h := sent.Header
	if h.Get("X-Api-Key") != call.Secret || h.Get("Anthropic-Beta") != "a-1,b-2" || h.Get("Anthropic-Version") != version || h.Get("Openai-Beta") != "" || h.Get("Authorization") != "" {
		t.Errorf("header %v", h)
	}
	if string(call.Facts.Replayed) != `"c2ln=="` {
		t.Errorf("replayed %s", call.Facts.Replayed)
	}
}

func TestStreamsPassThrough(t *testing.T) {
	const head = "event: message_start\r\ndata: {\"type\":\"message_start\", \"message\":{\"id\":\"msg_1\",\"model\":\"up-1\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":7,\"output_tokens\":1}}}\r\n\r\n"
	const rest = ": a comment\n\nevent: made_up\ndata:{\"type\":\"made_up\",\"x\": 1.50}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"QUJD\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\ndata: \"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	up := upstream.New(t, `200 sse body:`+strconv.Quote(head+rest))
	a, call := passed(t, up, `{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"x"}]}`)
	s, failure := a.Stream(context.Background(), call)
	if failure != nil {
		t.Fatal(failure)
	}
	defer s.Close()
	var got string
	for {
		c, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data := string(c.Data)
		if c.SpliceAt > 0 {
			data = data[:c.SpliceAt] + "<>" + data[c.SpliceAt:]
		}
		got += data
	}
	want := strings.Replace(head, "up-1", "catalogue/model", 1) + strings.Replace(rest, "\"message_delta\",\ndata: \"delta\"", "\"message_delta\", \"delta\"", 1)
	want = strings.Replace(want, `{"output_tokens":9}}`, `{"output_tokens":9}<>}`, 1)
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	r := s.Result()
	if r.Usage != (llm.Usage{InputTokens: 10, CachedInputTokens: 7, OutputTokens: 9, Source: attempt.UsageReported}) || string(r.Sealed) != `"QUJD"` || r.FinishReason != "end_turn" {
		t.Errorf("%+v", r)
	}
}
