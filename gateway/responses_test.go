package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"turnout/schemas/attempt"
)

// thinker speaks Responses itself and hands out reasoning that only it can read.
func thinker(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	const done = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"metadata":{"mine":"1"},"model":"up","output":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"c2VjcmV0"},{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello from think","annotations":[]}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":15}}`
	if !strings.HasSuffix(r.URL.Path, "/v1/responses") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, done)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, e := range []string{
		`"response.created","response":{"id":"resp_1","object":"response","model":"up","status":"in_progress","output":[]}`,
		`"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"hello from think"`,
		`"response.completed","response":` + done,
	} {
		kind, rest, _ := strings.Cut(e[1:], `"`)
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s}\n\n", kind, kind, i, rest)
	}
}

func responsesNode(t *testing.T) (*node, *upstreams) {
	u := newUpstreams(t)
	u.script("ant", claude("hello from ant"))
	u.script("alpha", scripted("hello from alpha"))
	u.script("think", thinker)
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "ant"}, providerSpec{id: "think", extra: "endpoints: [responses]\n", price: "{input: 9, output: 9}"})
	return start(t, strings.Replace(doc, "id: ant\nprotocol: openai", "id: ant\nprotocol: anthropic", 1), nil).ready(), u
}

func (n *node) responses(body string, header ...string) reply {
	n.t.Helper()
	return n.do("POST", n.url+"/v1/responses", body, header...)
}

func TestResponsesSDK(t *testing.T) {
	t.Parallel()
	n, u := responsesNode(t)
	client := openai.NewClient(openaioption.WithBaseURL(n.url+"/v1"), openaioption.WithAPIKey(token), openaioption.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range []string{"alpha", "ant", "think"} {
		ask := responses.ResponseNewParams{Model: p + ":m", Store: openai.Bool(false), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")}}
		r, err := client.Responses.New(ctx, ask)
		if err != nil || r.OutputText() != "hello from "+p || r.Status != "completed" || r.Usage.OutputTokens != 5 || r.Model != "m" {
			t.Fatalf("%s: %v %+v", p, err, r)
		}
		text := ""
		var last responses.ResponseStreamEventUnion
		s := client.Responses.NewStreaming(ctx, ask)
		for s.Next() {
			last = s.Current()
			if last.Type == "response.output_text.delta" {
				text += last.Delta
			}
		}
		if s.Err() != nil || text != "hello from "+p || last.Type != "response.completed" || last.Response.OutputText() != text || last.Response.Usage.OutputTokens != 5 || last.Response.Model != "m" {
			t.Errorf("%s: %v %q %+v", p, s.Err(), text, last)
		}
		if p == "think" {
			continue
		}
		ask.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}
		if r, err = client.Responses.New(ctx, ask); err != nil || len(r.Output) != 1 || r.Output[0].Name != "weather" || r.Output[0].Arguments.OfString != `{"city":"Brno"}` {
			t.Fatalf("%s: %v %+v", p, err, r)
		}
		id, call := r.Output[0].CallID, r.Output[0].AsFunctionCall().ToParam()
		ask.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage("Hello", "user"),
			{OfFunctionCall: &call},
			{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(id), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("sunny")}}},
		}}
		if _, err = client.Responses.New(ctx, ask); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	_, err := client.Responses.New(ctx, responses.ResponseNewParams{Model: "m", Store: openai.Bool(true), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("x")}})
	if e := (*openai.Error)(nil); !errors.As(err, &e) || e.StatusCode != 400 || e.Param != "store" {
		t.Errorf("%v", err)
	}
	events := n.events(10)
	balanced(t, u, events)
	for _, e := range events {
		if e.Endpoint != attempt.EndpointResponses || e.Provider == "think" && (e.CachedInputTokens != 4 || e.ReasoningTokens != 3 || e.FinishReason != "completed") {
			t.Errorf("%+v", e)
		}
	}
}

func TestResponsesRefused(t *testing.T) {
	t.Parallel()
	n, u := responsesNode(t)
	for body, want := range map[string]string{
		`{"model":"m","input":"x","store":true}`:                                   "store: must be false",
		`{"model":"m","input":"x","background":true}`:                              "background: must be false",
		`{"model":"m","input":"x","previous_response_id":"resp_1"}`:                "previous_response_id: must be left out",
		`{"model":"m","input":[]}`:                                                 "input: must hold at least one item",
		`{"model":"m","input":[{"role":"robot","content":"x"}]}`:                   "input[0].role: must be",
		`{"model":"m","input":[{"role":"user"}]}`:                                  "input[0].content: is missing",
		`{"model":"m","input":[{"type":"function_call_output","call_id":"gone"}]}`: "input[0].call_id: must be the call_id",
		`{"model":"m","input":[{"type":"item_reference","id":"rs_1"}]}`:            "input[0]: refers to an item",
		`{"model":"m","input":"x","tools":[{"type":"function"}]}`:                  "tools[0].name: is missing",
		`{"model":"m","input":"x","max_output_tokens":0}`:                          "max_output_tokens: must be an integer",
	} {
		if r := n.responses(body); r.status != 400 || !strings.HasPrefix(fmt.Sprint(r.at("error.message")), want) || r.at("error.code") != "invalid_value" {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	u.script("alpha", func(w http.ResponseWriter, _ *http.Request) { chunks(w, "half of it", "", false) })
	r := n.responses(`{"model":"alpha:m","input":"x","stream":true}`)
	if !strings.Contains(r.body, "event: error\ndata: {\"type\":\"error\",\"code\":\"upstream_error\"") || strings.Contains(r.body, "response.completed") {
		t.Errorf("%s", r.body)
	}
	u.script("alpha", status(400, "blocked by content management policy"))
	if r = n.responses(`{"model":"alpha:m","input":"x","stream":true}`); !strings.Contains(r.body, `"incomplete_details":{"reason":"content_filter"}`) || !strings.Contains(r.body, `"turnout":{`) {
		t.Errorf("%s", r.body)
	}
}

// A conversation that replays encrypted reasoning goes to who issued it and nowhere else.
func TestReasoningIsBoundToItsIssuer(t *testing.T) {
	t.Parallel()
	n, u := responsesNode(t)
	if r := n.responses(`{"model":"think:m","input":"x"}`); r.status != 200 || r.at("metadata.mine") != "1" || r.at("turnout.used_provider") != "think" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	replay := `{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"%s"},{"role":"user","content":"y"}]}`
	for range 5 {
		if r := n.responses(fmt.Sprintf(replay, "c2VjcmV0")); r.status != 200 || r.at("turnout.used_provider") != "think" {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if r := n.responses(fmt.Sprintf(replay, "b3RoZXI=")); r.status != 200 || r.at("turnout.used_provider") == "think" {
		t.Errorf("nobody's reasoning: %d %s", r.status, r.body)
	}
	before := len(u.called("alpha")) + len(u.called("ant"))
	u.script("think", status(503, "down"))
	r := n.responses(fmt.Sprintf(replay, "c2VjcmV0"))
	if r.status != 503 || r.at("error.code") != "reasoning_provider_unavailable" || !strings.Contains(r.body, "think") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if len(u.called("alpha"))+len(u.called("ant")) != before {
		t.Error("somebody else was asked")
	}
	n.stop()
	bound := 0
	for _, e := range n.logged() {
		if slices.Contains(e.Traits, attempt.TraitBoundTo+"think") {
			bound++
		}
	}
	if bound != 6 { // five that were served, and one that failed; its retries have no traits
		t.Errorf("%d events name the binding", bound)
	}
}
