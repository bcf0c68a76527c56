package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"go.uber.org/goleak"

	"turnout/deploy/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves on a free loopback port until the test ends.
func start(t *testing.T, o sim.Options) (*sim.Server, string) {
	t.Helper()
	s, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Start(l)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// one is a provider p that answers at once, in ten tokens, two of them an event.
func one(change func(*sim.Behavior)) []sim.Provider {
	b := sim.DefaultBehavior()
	b.OutputTokens, b.ChunkTokens = sim.Fixed(10), 2
	if change != nil {
		change(&b)
	}
	return []sim.Provider{{ID: "p", Keys: []string{"key-abcdefgh"}, Behavior: b, Models: []sim.Model{
		{ID: "m", Context: 5000}, {ID: "thinks", Reasoning: true}, {ID: "e", Embedding: true},
	}}}
}

func sdk(base string) *openai.Client {
	c := openai.NewClient(option.WithBaseURL(base+"/p/v1"), option.WithAPIKey("key-abcdefgh"), option.WithMaxRetries(0),
		option.WithHeader("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	return &c
}

func chat(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

// post sends a raw body and returns the status, headers and text of the answer. An answer that is cut
// short is an error.
func post(t *testing.T, base, path, body string) (int, http.Header, string, error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key-abcdefgh")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

const (
	chatPath   = "/p/v1/chat/completions"
	plainBody  = `{"model":"m","messages":[{"role":"user","content":"Hello world"}]}`
	streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello world"}]}`
)

func TestPlainWithSDK(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	answer, err := sdk(base).Chat.Completions.New(t.Context(), chat("Hello world"))
	if err != nil {
		t.Fatal(err)
	}
	text := answer.Choices[0].Message.Content
	if answer.Usage.PromptTokens != 3 || answer.Usage.CompletionTokens != 10 || sim.CountTokens(text) != 10 || answer.Usage.TotalTokens != 13 {
		t.Errorf("usage %+v, text %q", answer.Usage, text)
	}
	if answer.Choices[0].FinishReason != "stop" || answer.Model != "m" || !strings.HasPrefix(answer.ID, "chatcmpl-") {
		t.Errorf("got %s", answer.RawJSON())
	}
	e := s.Ledger(0)
	if len(e) != 1 || e[0].Outcome != sim.Completed || e[0].Status != 200 || e[0].SpanID != "b7ad6b7169203331" ||
		e[0].TraceID != "0af7651916cd43dd8448eb211c80319c" || e[0].APIKey != "...efgh" || e[0].OutputTokens != 10 || e[0].InputTokens != 3 || e[0].Model != "m" || e[0].Call != 1 {
		t.Errorf("ledger %+v", e)
	}
}

func TestStreamWithSDK(t *testing.T) {
	s, base := start(t, sim.Options{Providers: one(nil)})
	params := chat("Hello world")
	params.StreamOptions.IncludeUsage = param.NewOpt(true)
	stream := sdk(base).Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	chunks := 0
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			chunks++
		}
		if !all.AddChunk(chunk) {
			t.Fatalf("chunk does not fit: %s", chunk.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if chunks != 5 || sim.CountTokens(all.Choices[0].Message.Content) != 10 || all.Usage.CompletionTokens != 10 || all.Choices[0].FinishReason != "stop" {
		t.Errorf("%d chunks, %+v", chunks, all.ChatCompletion)
	}
	if e := s.Ledger(0); len(e) != 1 || !e[0].Stream || e[0].Chunks != 5 || e[0].Outcome != sim.Completed || e[0].OutputTokens != 10 {
		t.Errorf("ledger %+v", e)
	}
}

func TestUsageOnlyWhenAsked(t *testing.T) {
	_, base := start(t, sim.Options{Providers: one(nil)})
	_, header, text, err := post(t, base, chatPath, streamBody)
	if err != nil || strings.Contains(text, `"usage"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %v\n%s", err, header, text)
	}
}

func TestToolsChoicesAndLimitsWithSDK(t *testing.T) {
	_, base := start(t, sim.Options{Providers: one(nil)})
	client := sdk(base)
	t.Run("forced tool, plain and as a stream", func(t *testing.T) {
		params := chat("weather?")
		params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name:       "weather",
			Parameters: openai.FunctionParameters{"type": "object", "required": []string{"city", "days"}, "properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}},
		})}
		params.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("required")}
		answer, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		call := answer.Choices[0].Message.ToolCalls[0]
		if call.Function.Name != "weather" || call.Function.Arguments != `{"city":"sim","days":1}` || answer.Choices[0].FinishReason != "tool_calls" || answer.Usage.PromptTokens < 20 {
			t.Errorf("got %s", answer.RawJSON())
		}
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if stream.Err() != nil || all.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"city":"sim","days":1}` || all.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("%v %+v", stream.Err(), all.ChatCompletion)
		}
	})
	t.Run("n and max_tokens", func(t *testing.T) {
		params := chat("hi")
		params.N, params.MaxTokens = param.NewOpt[int64](3), param.NewOpt[int64](4)
		answer, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Choices) != 3 || answer.Usage.CompletionTokens != 12 || answer.Choices[2].FinishReason != "length" || answer.Choices[0].Message.Content == answer.Choices[1].Message.Content {
			t.Errorf("got %s", answer.RawJSON())
		}
		params.StreamOptions.IncludeUsage = param.NewOpt(true)
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if stream.Err() != nil || len(all.Choices) != 3 || sim.CountTokens(all.Choices[2].Message.Content) != 4 || all.Usage.CompletionTokens != 12 {
			t.Errorf("%v %+v", stream.Err(), all.ChatCompletion)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		params := chat("hi")
		params.Model = "thinks"
		answer, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil || answer.Usage.CompletionTokensDetails.ReasoningTokens != 5 || sim.CountTokens(answer.Choices[0].Message.Content) != 5 {
			t.Errorf("%v %s", err, answer.RawJSON())
		}
		_, _, text, err := post(t, base, chatPath, strings.Replace(streamBody, `"m"`, `"thinks"`, 1))
		if err != nil || strings.LastIndex(text, "reasoning_content") < 0 || strings.LastIndex(text, "reasoning_content") > strings.Index(text, `"delta":{"content"`) {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("min_tokens as vLLM has it", func(t *testing.T) {
		_, _, text, _ := post(t, base, chatPath, strings.Replace(plainBody, `"m",`, `"m","max_tokens":700,"min_tokens":700,`, 1))
		if !strings.Contains(text, `"completion_tokens":700`) || !strings.Contains(text, `"finish_reason":"length"`) {
			t.Errorf("got %.300s", text)
		}
	})
	t.Run("json", func(t *testing.T) {
		_, _, text, _ := post(t, base, chatPath, strings.Replace(plainBody, `"m",`, `"m","response_format":{"type":"json_object"},`, 1))
		if !strings.Contains(text, `"content":"{\"answer\":\"sim\"}"`) {
			t.Errorf("got %.300s", text)
		}
	})
	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(t.Context())
		if err != nil || len(page.Data) != 3 || page.Data[0].ID != "m" {
			t.Errorf("%v %+v", err, page)
		}
	})
}

func TestEmbeddingsWithSDK(t *testing.T) {
	_, base := start(t, sim.Options{Providers: one(nil)})
	input := openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"Hello world", "Hello world", "other"}}
	answer, err := sdk(base).Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "e", Input: input, EncodingFormat: "float", Dimensions: param.NewOpt[int64](8)})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := answer.Data[0].Embedding, answer.Data[1].Embedding, answer.Data[2].Embedding
	norm := 0.0
	for _, x := range a {
		norm += x * x
	}
	if len(a) != 8 || fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) || norm < .999 || norm > 1.001 || answer.Usage.PromptTokens != 8 {
		t.Errorf("got %s", answer.RawJSON())
	}
	_, _, text, _ := post(t, base, "/p/v1/embeddings", `{"model":"e","input":"x","encoding_format":"base64","dimensions":2}`)
	var packed struct{ Data []struct{ Embedding []byte } }
	if err := json.Unmarshal([]byte(text), &packed); err != nil || len(packed.Data) != 1 || len(packed.Data[0].Embedding) != 8 {
		t.Errorf("%v %s", err, text)
	}
	_, _, text, _ = post(t, base, "/p/v1/embeddings", `{"model":"e","input":[[1,2,3],[4]]}`)
	if !strings.Contains(text, `"prompt_tokens":4,`) {
		t.Errorf("got %.200s", text)
	}
}

func TestPromptCache(t *testing.T) {
	now := time.Unix(1000, 0)
	_, base := start(t, sim.Options{Now: func() time.Time { return now }, Providers: one(func(b *sim.Behavior) {
		b.Cache = sim.Cache{BlockTokens: 128, CapacityTokens: 1280, TTLSeconds: 60}
	})})
	ask := func(model string, texts ...string) (cached int64) {
		t.Helper()
		params := chat("")
		params.Model, params.Messages = model, nil
		for _, text := range texts {
			params.Messages = append(params.Messages, openai.UserMessage(text))
		}
		answer, err := sdk(base).Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Usage.PromptTokensDetails.CachedTokens
	}
	long := strings.Repeat("0123456789abcdef", 160) // 640 tokens
	for _, step := range []struct {
		what string
		got  int64
		want int64
	}{
		{"first", ask("m", long), 0},
		{"again", ask("m", long), 640},
		{"longer", ask("m", long+"tail"), 640},
		{"as the front of a conversation", ask("m", long, "and then?"), 640},
		{"half of it", ask("m", long[:1300]), 256},
		{"another front", ask("m", "x"+long), 0},
		{"another model", ask("thinks", long), 0},
		{"pushed out by the other model and front", ask("m", long), 0},
	} {
		if step.got != step.want {
			t.Errorf("%s: %d tokens cached, want %d", step.what, step.got, step.want)
		}
	}
	now = now.Add(61 * time.Second)
	if got := ask("m", long); got != 0 {
		t.Errorf("%d tokens cached after the lifetime", got)
	}
}

func TestPacing(t *testing.T) {
	_, base := start(t, sim.Options{Providers: one(func(b *sim.Behavior) { b.TTFT, b.TokenRate = sim.Fixed(60), sim.Fixed(200) })})
	begin := time.Now()
	stream := sdk(base).Chat.Completions.NewStreaming(t.Context(), chat("hi"))
	defer stream.Close()
	var first time.Duration
	for stream.Next() {
		if first == 0 {
			first = time.Since(begin)
		}
	}
	// 60 ms to the first of 5 events, 10 ms between them
	if whole := time.Since(begin); first < 60*time.Millisecond || whole < 100*time.Millisecond || whole > 2*time.Second {
		t.Errorf("first output after %s, end after %s", first, whole)
	}
}

func TestRefusals(t *testing.T) {
	_, base := start(t, sim.Options{Providers: one(nil)})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{chatPath, `{`, 400, "unexpected end of JSON"},
		{chatPath, `{"model":"nope","messages":[]}`, 404, "model_not_found"},
		{chatPath, `{"model":"e","messages":[{"role":"user","content":"x"}]}`, 404, "does not serve chat"},
		{chatPath, `{"model":"m","messages":[]}`, 400, "messages: must hold"},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":7}]}`, 400, "content must be"},
		{chatPath, `{"model":"m","n":99,"messages":[{"role":"user"}]}`, 400, "n: 99"},
		{chatPath, `{"model":"m","max_tokens":0,"messages":[{"role":"user"}]}`, 400, "max_tokens: 0"},
		{chatPath, `{"model":"m","max_tokens":5000,"messages":[{"role":"user","content":"Hello"}]}`, 400, "context_length_exceeded"},
		{chatPath, `{"model":"m","stream_options":{},"messages":[{"role":"user"}]}`, 400, "stream_options"},
		{chatPath, `{"model":"m","tools":[],"tool_choice":{"type":"function","function":{"name":"f"}},"messages":[{"role":"user"}]}`, 400, "is none of the tools"},
		{"/p/v1/embeddings", `{"model":"e","input":{}}`, 400, "input: must be"},
		{"/p/v1/embeddings", `{"model":"e","input":"x","encoding_format":"hex"}`, 400, "encoding_format"},
		{"/p/v1/other", `{}`, 404, "not_found"},
		{"/q/v1/chat/completions", plainBody, 404, "providers here are p"},
	} {
		status, _, text, err := post(t, base, c.path, c.body)
		if err != nil || status != c.status || !strings.Contains(text, c.want) || !json.Valid([]byte(text)) {
			t.Errorf("%s %s: %v %d %s", c.path, c.body, err, status, text)
		}
	}
	resp, err := http.Post(base+chatPath, "application/json", strings.NewReader(plainBody))
	if err != nil || resp.StatusCode != 401 {
		t.Errorf("no key: %v %v", err, resp)
	}
	resp.Body.Close()
}

// One seed meets one fate, another seed another.
func TestDeterminism(t *testing.T) {
	run := func(seed uint64) string {
		_, base := start(t, sim.Options{Seed: seed, Now: func() time.Time { return time.Unix(1000, 0) }, Providers: one(func(b *sim.Behavior) {
			b.OutputTokens, b.ErrorRate, b.CutRate, b.CutAfter = sim.Lognormal(20, 90), .3, .3, 1
			b.ErrorKinds = []string{sim.ErrorServer, sim.ErrorHTML, sim.ErrorInBand, sim.ErrorRateLimited}
		})})
		var all bytes.Buffer
		for i := range 60 {
			body := plainBody
			if i%2 == 1 {
				body = streamBody
			}
			status, _, text, err := post(t, base, chatPath, body)
			fmt.Fprintln(&all, status, text, err != nil)
		}
		return all.String()
	}
	first := run(7)
	if first != run(7) {
		t.Error("two runs of one seed differ")
	}
	if first == run(8) {
		t.Error("two seeds do not differ")
	}
	for _, want := range []string{"500 {", "502 <html", "429 {", "true\n", "200 {"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q among 60 calls", want)
		}
	}
}
