package openai

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

// OpenAI's SDK asks for base64 and takes what comes for it: of numbers it makes garbage.
func TestEmbeddingsAreEncodedAsTheClientAsked(t *testing.T) {
	const (
		numbers = `[0.5, -1,1e-3]`
		base64  = `"AAAAPwAAgL9vEoM6"`
	)
	for _, tc := range []struct{ ask, sends, want string }{
		{`,"encoding_format":"base64"`, numbers, base64},
		{`,"encoding_format":"base64"`, base64, base64},
		{`,"encoding_format":"base64"`, `[1,null]`, `[1,null]`},
		{`,"encoding_format":"float"`, numbers, numbers},
		{``, base64, `[0.5,-1,0.001]`},
		{``, `"AAAAPw="`, `"AAAAPw="`},
		{``, `"AADAfw=="`, `"AADAfw=="`}, // no number
	} {
		answer := func(vector string) string {
			return `{"data":[{"embedding":` + vector + `,"index":0},{"index":1,"embedding":` + vector + `}],"model":"up-1","usage":{"prompt_tokens":3,"total_tokens":3}}`
		}
		up := upstream.New(t, `200 json:`+strconv.Quote(answer(tc.sends)))
		body := []byte(`{"model":"m","input":["a","b"]` + tc.ask + `}`)
		facts, failed := llm.ParseEmbeddings(body)
		if failed != nil {
			t.Fatal(failed)
		}
		transports := provider.NewTransports(nil)
		t.Cleanup(transports.CloseIdle)
		got, failure := New(transports, "x", time.Now).Complete(context.Background(), &provider.Call{
			Endpoint: attempt.EndpointEmbeddings, Facts: facts, Body: body, Model: "m", UpstreamModel: "up-1",
			Target: &provider.Target{Provider: "p", BaseURL: up.URL + "/v1", AllowPrivate: true},
		})
		if failure != nil {
			t.Fatal(failure)
		}
		if want := strings.Replace(answer(tc.want), "up-1", "m", 1); string(got.Body) != want || got.SpliceAt != len(want)-1 {
			t.Errorf("%s: %s\ngot  %s\nwant %s", tc.ask, tc.sends, got.Body, want)
		}
		if sent := string(up.Calls()[0].Body); sent != strings.Replace(string(body), `"m"`, `"up-1"`, 1) {
			t.Errorf("sent %s", sent)
		}
	}
}
