package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk-secret-0123456789"

func newAdapter(t testing.TB) *Adapter {
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
}

// newCall is a call of base with a body of these extra fields (", \"k\":v").
func newCall(t testing.TB, base, extra string) *provider.Call {
	body := []byte(`{"model":"client-model","messages":[{"role":"user","content":"Hello"}]` + extra + `}`)
	facts, err := llm.ParseChat(body)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Call{
		Endpoint: attempt.EndpointChat, Facts: facts, Body: body, Model: "catalogue/model", UpstreamModel: "upstream-model",
		Target: &provider.Target{Provider: "p", BaseURL: base + "/v1", AllowPrivate: true}, Secret: secret,
		Timeouts: provider.Timeouts{Connect: time.Second, FirstByte: 2 * time.Second, FirstOutput: 2 * time.Second, Idle: 2 * time.Second, Total: 5 * time.Second},
	}
}

const streaming = `,"stream":true`

// relayed is what came of a stream.
type relayed struct {
	text    string // all bytes the client is to see
	chunks  []provider.Chunk
	splices []string // the bytes in front of each splice offset
	err     *llm.Error
	result  provider.Result
}

func relay(t testing.TB, a *Adapter, ctx context.Context, call *provider.Call) (r relayed) {
	t.Helper()
	s, failure := a.Stream(ctx, call)
	if failure != nil {
		if s != nil {
			t.Fatal("a stream together with a failure")
		}
		return relayed{err: failure}
	}
	defer s.Close()
	for {
		c, err := s.Next()
		if err == io.EOF {
			r.result = s.Result()
			return r
		}
		if err != nil {
			if !errors.As(err, &r.err) {
				t.Fatalf("an error that is no *llm.Error: %v", err)
			}
			r.result = s.Result()
			if _, again := s.Next(); again != err {
				t.Fatalf("the error does not stick: %v", again)
			}
			return r
		}
		if len(r.chunks) > 0 && r.chunks[len(r.chunks)-1].Done {
			t.Fatal("a chunk behind the last")
		}
		r.text += string(c.Data)
		if c.SpliceAt > 0 {
			r.splices = append(r.splices, spliced(t, c.Data, c.SpliceAt))
		}
		c.Data = nil
		r.chunks = append(r.chunks, c)
	}
}

// spliced puts metadata in and returns the JSON of the event it went into, which must still be valid.
func spliced(t testing.TB, data []byte, at int) string {
	t.Helper()
	whole := string(data[:at]) + `,"metadata":{"m":1}` + string(data[at:])
	for line := range strings.SplitSeq(whole, "\n") {
		if payload, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(payload, `"metadata":{"m":1}`) {
			if !json.Valid([]byte(payload)) {
				t.Fatalf("spliced into invalid JSON: %s", payload)
			}
			return payload
		}
	}
	t.Fatalf("the splice is in no event: %s", whole)
	return ""
}

// done says whether the stream looks finished to a client.
func (r *relayed) done() bool { return strings.HasSuffix(r.text, "data: [DONE]\n\n") }

func contents(text string) string {
	var b strings.Builder
	for event := range strings.SplitSeq(text, "\n\n") {
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &chunk) == nil && len(chunk.Choices) > 0 {
			b.WriteString(chunk.Choices[0].Delta.Content)
		}
	}
	return b.String()
}
