package azure

import (
	"context"
	"errors"
	"net/http"
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

func newAdapter(transports *provider.Transports) provider.Adapter {
	return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
}

func TestConformance(t *testing.T) {
	const path = "/openai/deployments/gpt-x/chat/completions"
	providertest.Run(t, &providertest.Protocol{
		New: newAdapter, Path: path, StreamPath: path, Model: "gpt-x", Native: attempt.EndpointChat, Speech: providertest.Chat,
	})
}

// ask sends one request to a deployment "my gpt" and returns what came back and what the upstream saw.
func ask(t *testing.T, endpoint, base, script, body string) (string, *llm.Error, []upstream.Call) {
	t.Helper()
	up := upstream.New(t, script)
	parse := map[string]func([]byte) (*llm.Facts, *llm.APIError){attempt.EndpointChat: llm.ParseChat, attempt.EndpointEmbeddings: llm.ParseEmbeddings, attempt.EndpointResponses: llm.ParseResponses}[endpoint]
	facts, wrong := parse([]byte(body))
	if wrong != nil {
		t.Fatal(wrong)
	}
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	header := http.Header{"Api-Key": {"the client's"}, "Openai-Beta": {"x=1"}}
	call := &provider.Call{
		Endpoint: endpoint, Facts: facts, Body: []byte(body), Model: "m", UpstreamModel: "my gpt", Secret: "azure-0123456789", Header: header,
		Target: &provider.Target{Provider: "p", BaseURL: up.URL + base, AllowPrivate: true, Endpoints: []string{attempt.EndpointChat, attempt.EndpointEmbeddings, attempt.EndpointResponses}},
	}
	if !facts.Stream {
		answer, failure := newAdapter(transports).Complete(context.Background(), call)
		if failure != nil {
			return "", failure, up.Calls()
		}
		return string(answer.Body), nil, up.Calls()
	}
	s, failure := newAdapter(transports).Stream(context.Background(), call)
	if failure != nil {
		return "", failure, up.Calls()
	}
	defer s.Close()
	var out strings.Builder
	for {
		c, err := s.Next()
		if err != nil {
			errors.As(err, &failure)
			return out.String(), failure, up.Calls()
		}
		out.Write(c.Data)
	}
}

func TestAddressesAndCredential(t *testing.T) {
	chat := `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	answer := `200 json:"{\"id\":\"1\",\"model\":\"gpt\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}"`
	vectors := `200 json:"{\"object\":\"list\",\"model\":\"e\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0.5]}]}"`
	response := `200 json:"{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"gpt\",\"output\":[]}"`
	for name, tc := range map[string]struct{ endpoint, base, script, body, path, query string }{
		"a deployment":            {attempt.EndpointChat, "", answer, chat, "/openai/deployments/my gpt/chat/completions", "api-version=2024-10-21"},
		"a version":               {attempt.EndpointChat, "?api-version=2025-04-01-preview", answer, chat, "/openai/deployments/my gpt/chat/completions", "api-version=2025-04-01-preview"},
		"the newer API":           {attempt.EndpointChat, "/openai/v1", answer, chat, "/openai/v1/chat/completions", ""},
		"the newer API, previews": {attempt.EndpointChat, "/openai/v1?api-version=preview", answer, chat, "/openai/v1/chat/completions", "api-version=preview"},
		"a base URL with /openai": {attempt.EndpointChat, "/openai/?api-version=2025-04-01-preview", answer, chat, "/openai/deployments/my gpt/chat/completions", "api-version=2025-04-01-preview"},
		"embeddings":              {attempt.EndpointEmbeddings, "", vectors, `{"model":"m","input":"x"}`, "/openai/deployments/my gpt/embeddings", "api-version=2024-10-21"},
		"responses":               {attempt.EndpointResponses, "?api-version=2025-04-01-preview", response, `{"model":"m","input":"x","store":false}`, "/openai/responses", "api-version=2025-04-01-preview"},
		"responses, no version":   {attempt.EndpointResponses, "", response, `{"model":"m","input":"x","store":false}`, "/openai/responses", "api-version=2025-04-01-preview"},
		"responses, newer API":    {attempt.EndpointResponses, "/openai/v1", response, `{"model":"m","input":"x","store":false}`, "/openai/v1/responses", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure, calls := ask(t, tc.endpoint, tc.base, tc.script, tc.body)
			if failure != nil {
				t.Fatal(failure)
			}
			sent := calls[0]
			if sent.Path != tc.path || sent.Query != tc.query {
				t.Errorf("sent to %s ? %s, want %s ? %s", sent.Path, sent.Query, tc.path, tc.query)
			}
			if got := sent.Header["Api-Key"]; len(got) != 1 || got[0] != "azure-0123456789" || sent.Header.Get("Authorization") != "" {
				t.Errorf("credential in %v", sent.Header)
			}
			if !strings.Contains(string(sent.Body), `"model":"my gpt"`) {
				t.Errorf("body %s", sent.Body)
			}
		})
	}
}

// Translated requests went with max_tokens, which reasoning models refuse, wherever the base URL did not
// end in .openai.azure.com: at a resource's other hosts, behind a domain of the host's own, in tests.
func TestLimitGoesByProtocolNotByHost(t *testing.T) {
	for model, want := range map[string]string{"gpt-5.4": "max_completion_tokens", "o3": "max_completion_tokens", "deepseek-v3.2": "max_completion_tokens", "mistral-large-3": "max_tokens", "codestral-2501": "max_tokens", "mixtral-8x7b": "max_tokens"} {
		up := upstream.New(t, `200 json:"{\"id\":\"1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}"`)
		transports := provider.NewTransports(nil)
		body := []byte(`{"model":"m","max_tokens":77,"messages":[{"role":"user","content":"x"}]}`)
		facts, wrong := llm.ParseMessages(body)
		if wrong != nil {
			t.Fatal(wrong)
		}
		answer, failure := newAdapter(transports).Complete(context.Background(), &provider.Call{
			Endpoint: attempt.EndpointMessages, Facts: facts, Body: body, Model: model, UpstreamModel: "prod-1", Secret: "azure-0123456789",
			Target: &provider.Target{Provider: "p", BaseURL: up.URL, AllowPrivate: true},
		})
		if failure != nil {
			t.Fatal(failure)
		}
		answer.Release()
		transports.CloseIdle()
		if sent := string(up.Calls()[0].Body); !strings.Contains(sent, `"`+want+`":77`) || strings.Count(sent, ":77") != 1 {
			t.Errorf("%s is asked %s, want %s", model, sent, want)
		}
	}
}

// Azure tells what it thinks of the prompt in a chunk without choices before the first one, and of the
// answer in every chunk.
func TestStreamsWithFilterResults(t *testing.T) {
	const first = `{\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"object\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0,\"content_filter_results\":{\"hate\":{\"filtered\":false,\"severity\":\"safe\"}}}]}`
	const text = `{\"choices\":[{\"content_filter_results\":{},\"delta\":{\"content\":\"Hello\",\"role\":\"assistant\"},\"finish_reason\":null,\"index\":0}],\"created\":1,\"id\":\"c\",\"model\":\"gpt\",\"object\":\"chat.completion.chunk\"}`
	script := `200 sse chunk:"` + first + `" chunk:"` + text + `" finish:stop usage:5,2 done`
	out, failure, _ := ask(t, attempt.EndpointChat, "", script, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if failure != nil {
		t.Fatal(failure)
	}
	for _, want := range []string{`"prompt_filter_results":[{"prompt_index":0`, `"content":"Hello"`, "data: [DONE]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if strings.Contains(out, `"prompt_tokens"`) {
		t.Errorf("usage that nobody asked for: %s", out)
	}
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   attempt.Outcome
		bad    bool
	}{
		"a filtered prompt":         {`400 json:"{\"error\":{\"message\":\"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.\",\"type\":null,\"param\":\"prompt\",\"code\":\"content_filter\",\"status\":400,\"innererror\":{\"code\":\"ResponsibleAIPolicyViolation\",\"content_filter_result\":{\"jailbreak\":{\"filtered\":true,\"detected\":true}}}}}"`, attempt.ContentFilter, false},
		"no such deployment":        {`404 json:"{\"error\":{\"code\":\"DeploymentNotFound\",\"message\":\"The API deployment for this resource does not exist.\"}}"`, attempt.UpstreamError, false},
		"too many":                  {`429 json:"{\"error\":{\"code\":\"429\",\"message\":\"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current AIServices S0 pricing tier. Please retry after 7 seconds.\"}}"`, attempt.UpstreamError, false},
		"a wrong key":               {`401 json:"{\"error\":{\"code\":\"401\",\"message\":\"Access denied due to invalid subscription key or wrong API endpoint.\"}}"`, attempt.GatewayError, true},
		"a version it has not":      {`404 json:"{\"error\":{\"code\":\"404\",\"message\":\"Resource not found\"}}"`, attempt.UpstreamError, false},
		"a parameter it knows not":  {`400 json:"{\"error\":{\"message\":\"Unrecognized request argument supplied: foo\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}"`, attempt.ClientError, false},
		"a prompt that is too long": {`400 json:"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens, however you requested 9000 tokens\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"context_length_exceeded\"}}"`, attempt.ClientError, false},
	} {
		_, failure, _ := ask(t, attempt.EndpointChat, "", tc.script, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		if failure == nil || failure.Class != tc.want || failure.InvalidKey != tc.bad {
			t.Errorf("%s: %+v, want %s", name, failure, tc.want)
		}
	}
}

// A credential that no header can carry was a network error, and tried for ever.
func TestCredentialWithALineBreak(t *testing.T) {
	up := upstream.New(t, "500")
	transports := provider.NewTransports(nil)
	defer transports.CloseIdle()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	facts, _ := llm.ParseChat(body)
	for _, second := range []bool{false, true} {
		_, failure := newAdapter(transports).Complete(context.Background(), &provider.Call{
			Endpoint: attempt.EndpointChat, Facts: facts, Body: body, Model: "m", UpstreamModel: "m", Secret: "azure-01234\n56789",
			Target: &provider.Target{Provider: "p", BaseURL: up.URL, AllowPrivate: true, HTTP2: second},
		})
		if failure == nil || failure.Class != attempt.GatewayError || !failure.InvalidKey || !failure.Unsent || strings.Contains(failure.Error(), "01234") || len(up.Calls()) != 0 {
			t.Errorf("http: 2 %t: %+v", second, failure)
		}
	}
}

// The wait that Azure names in words is the key's, unless a header says otherwise.
func TestWaitInWords(t *testing.T) {
	const body = `json:"{\"error\":{\"code\":\"429\",\"message\":\"Requests have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 9 seconds.\"}}"`
	for script, want := range map[string]time.Duration{"429 " + body: 9 * time.Second, "429 h:\"Retry-After: 2\" " + body: 2 * time.Second, "429 h:\"Retry-After: 0\" " + body: 0} {
		if _, failure, _ := ask(t, attempt.EndpointChat, "", script, `{"model":"m","messages":[{"role":"user","content":"x"}]}`); failure == nil || failure.RetryAfter != want {
			t.Errorf("%s: %+v, want %s", script, failure, want)
		}
	}
}
