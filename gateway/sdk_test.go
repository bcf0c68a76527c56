package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
)

// scripted answers chat as it is asked: a tool call where there are tools, else a text.
func scripted(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { scriptedAs(w, r, text) }
}

func scriptedAs(w http.ResponseWriter, r *http.Request, text string) {
	var q struct {
		Stream bool
		Tools  []struct{ Function struct{ Name string } }
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	finish, call := "stop", ""
	if len(q.Tools) > 0 {
		finish = "tool_calls"
		call = fmt.Sprintf(`"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":"{\"city\":\"Brno\"}"}}]`, q.Tools[0].Function.Name)
	}
	const usage = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		message := fmt.Sprintf(`"content":%q`, text)
		if call != "" {
			message = `"content":null,` + call
		}
		fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":%q}],%s}`, message, finish, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	delta := fmt.Sprintf(`"content":%q`, text)
	if call != "" {
		delta = call
	}
	for _, choices := range []string{`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`,
		`{"index":0,"delta":{` + delta + `},"finish_reason":null}`, fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, finish)} {
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[%s]}\n\n", choices)
	}
	fmt.Fprint(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[],"+usage+"}\n\ndata: [DONE]\n\n")
}

func sdkNode(t *testing.T) (*node, *upstreams) {
	u := newUpstreams(t)
	u.script("ant", claude("hello from ant"))
	u.script("alpha", scripted("hello from alpha"))
	return start(t, mixed(u.URL), nil).ready(), u
}

func TestAnthropicSDK(t *testing.T) {
	t.Parallel()
	n, u := sdkNode(t)
	client := anthropic.NewClient(anthropicoption.WithBaseURL(n.url), anthropicoption.WithAuthToken(token), anthropicoption.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range []string{"alpha", "ant"} {
		ask := anthropic.MessageNewParams{Model: p + ":m", MaxTokens: 100,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))}}
		m, err := client.Messages.New(ctx, ask)
		if err != nil || len(m.Content) != 1 || m.Content[0].Text != "hello from "+p || m.StopReason != anthropic.StopReasonEndTurn || m.Usage.OutputTokens != 5 || m.Usage.InputTokens != 10 {
			t.Fatalf("%s: %v %+v", p, err, m)
		}
		streamed := anthropic.Message{}
		for s := client.Messages.NewStreaming(ctx, ask); ; {
			if !s.Next() {
				if s.Err() != nil {
					t.Fatalf("%s: %v", p, s.Err())
				}
				break
			}
			if err := streamed.Accumulate(s.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if len(streamed.Content) != 1 || streamed.Content[0].Text != "hello from "+p || streamed.StopReason != anthropic.StopReasonEndTurn || streamed.Usage.OutputTokens != 5 {
			t.Errorf("%s: %+v", p, streamed)
		}

		ask.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather", InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}}}}}
		if m, err = client.Messages.New(ctx, ask); err != nil || m.Content[0].Type != "tool_use" || m.Content[0].Name != "weather" || string(m.Content[0].Input) != `{"city":"Brno"}` || m.StopReason != anthropic.StopReasonToolUse {
			t.Fatalf("%s: %v %+v", p, err, m)
		}
		// The conversation goes on with the tool's result.
		ask.Messages = append(ask.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(m.Content[0].ID, "sunny", false)))
		streamed = anthropic.Message{}
		s := client.Messages.NewStreaming(ctx, ask)
		for s.Next() {
			if err := streamed.Accumulate(s.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if s.Err() != nil || streamed.Content[0].Name != "weather" || string(streamed.Content[0].Input) != `{"city":"Brno"}` {
			t.Errorf("%s: %v %+v", p, s.Err(), streamed)
		}
		ask.Tools = nil
		ask.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewImageBlockBase64("image/png", "aGVsbG8="), anthropic.NewTextBlock("What?"))}
		if _, err = client.Messages.New(ctx, ask); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		ask.Model = p + ":nothing"
		_, err = client.Messages.New(ctx, ask)
		if e := (*anthropic.Error)(nil); !errors.As(err, &e) || e.StatusCode != 400 || e.Type() != "invalid_request_error" {
			t.Errorf("%s: %v", p, err)
		}
	}
	if c, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello world"))}}); err != nil || c.InputTokens != 3 {
		t.Errorf("%v %v", c, err)
	}
	balanced(t, u, n.events(10))
}

func TestOpenAISDK(t *testing.T) {
	t.Parallel()
	n, u := sdkNode(t)
	client := openai.NewClient(openaioption.WithBaseURL(n.url+"/v1"), openaioption.WithAPIKey(token), openaioption.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range []string{"alpha", "ant"} {
		ask := openai.ChatCompletionNewParams{Model: p + ":m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}}
		c, err := client.Chat.Completions.New(ctx, ask)
		if err != nil || c.Choices[0].Message.Content != "hello from "+p || c.Choices[0].FinishReason != "stop" || c.Usage.CompletionTokens != 5 {
			t.Fatalf("%s: %v %+v", p, err, c)
		}
		acc := openai.ChatCompletionAccumulator{}
		ask.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		s := client.Chat.Completions.NewStreaming(ctx, ask)
		for s.Next() {
			acc.AddChunk(s.Current())
		}
		if s.Err() != nil || acc.Choices[0].Message.Content != "hello from "+p || acc.Choices[0].FinishReason != "stop" || acc.Usage.CompletionTokens != 5 {
			t.Errorf("%s: %v %+v", p, s.Err(), acc.ChatCompletion)
		}
		ask.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
		ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
		acc = openai.ChatCompletionAccumulator{}
		s = client.Chat.Completions.NewStreaming(ctx, ask)
		for s.Next() {
			acc.AddChunk(s.Current())
		}
		calls := acc.Choices[0].Message.ToolCalls
		if s.Err() != nil || len(calls) != 1 || calls[0].Function.Name != "weather" || calls[0].Function.Arguments != `{"city":"Brno"}` {
			t.Fatalf("%s: %v %+v", p, s.Err(), acc.ChatCompletion)
		}
		ask.Messages = append(ask.Messages, acc.Choices[0].Message.ToParam(), openai.ToolMessage("sunny", calls[0].ID))
		if c, err = client.Chat.Completions.New(ctx, ask); err != nil || c.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"city":"Brno"}` {
			t.Errorf("%s: %v %+v", p, err, c)
		}
		ask.Model = p + ":nothing"
		_, err = client.Chat.Completions.New(ctx, ask)
		if e := (*openai.Error)(nil); !errors.As(err, &e) || e.StatusCode != 400 || e.Code != "model_not_found" {
			t.Errorf("%s: %v", p, err)
		}
	}
	balanced(t, u, n.events(8))
}
