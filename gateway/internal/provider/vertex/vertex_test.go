package vertex

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

const base = "/v1/projects/my-project/locations/global"

func TestConformance(t *testing.T) {
	of := func(model string) func(*provider.Transports) provider.Adapter {
		return func(transports *provider.Transports) provider.Adapter {
			return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }).Of(model)
		}
	}
	const claude, gemini, deepseek = "claude-sonnet-4-5@20250929", "gemini-2.5-pro", "deepseek-ai/deepseek-v3.2-maas"
	providertest.Run(t, &providertest.Protocol{
		New: of(claude), Base: base, Path: "/publishers/anthropic/models/" + claude + ":rawPredict", StreamPath: "/publishers/anthropic/models/" + claude + ":streamRawPredict",
		Model: claude, Native: attempt.EndpointMessages, Golden: "claude", About: "Claude on Vertex", Speech: providertest.Messages,
	})
	providertest.Run(t, &providertest.Protocol{
		New: of(gemini), Base: base, Path: "/publishers/google/models/" + gemini + ":generateContent", StreamPath: "/publishers/google/models/" + gemini + ":streamGenerateContent",
		Model: gemini, About: "Gemini 2.5 on Vertex", NoMarker: true, Speech: providertest.Gemini,
	})
	const path = "/endpoints/openapi/chat/completions"
	providertest.Run(t, &providertest.Protocol{
		New: of(deepseek), Base: base, Path: path, StreamPath: path,
		Model: deepseek, Native: attempt.EndpointChat, Golden: "open", About: "Open models on Vertex", Speech: providertest.Chat,
	})
}

var said = providertest.Said{Text: "Hello there", Finish: llm.FinishStop}

// call sends one request on Messages.
func call(t *testing.T, a *Adapter, url, model, secret, body string) *llm.Error {
	t.Helper()
	facts, wrong := llm.ParseMessages([]byte(body))
	if wrong != nil {
		t.Fatal(wrong)
	}
	c := &provider.Call{
		Endpoint: attempt.EndpointMessages, Facts: facts, Body: []byte(body), Model: "m", UpstreamModel: model, Secret: secret,
		Header: http.Header{"Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"context-1m-2025-08-07"}, "Openai-Beta": {"x"}},
		Target: &provider.Target{Provider: "p", BaseURL: url + base, AllowPrivate: true},
	}
	if facts.Stream {
		s, failure := a.Stream(context.Background(), c)
		if failure == nil {
			s.Close()
		}
		return failure
	}
	answer, failure := a.Complete(context.Background(), c)
	if failure == nil {
		answer.Release()
	}
	return failure
}

func newAdapter(t *testing.T, now func() time.Time) *Adapter {
	transports := provider.NewTransports(nil)
	a := New(transports, "turnout/test", now)
	t.Cleanup(transports.CloseIdle)
	return a
}

// Messages for Claude keep every byte but the model, which goes into the path, and say the version in
// the body.
func TestClaudesBytesStay(t *testing.T) {
	const before = `{"max_tokens":9,  "model":"m","x_unknown":{"a":[1, 2]},"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"c2ln"},{"type":"text","text":"a"}]},{"role":"user","content":"x"}]}`
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Messages.Plain(said)))
	if failure := call(t, newAdapter(t, time.Now), up.URL, "claude-sonnet-4-5", "ya29.token", before); failure != nil {
		t.Fatal(failure)
	}
	sent := up.Calls()[0]
	if want := strings.Replace(before, `"model":"m"`, `"anthropic_version":"vertex-2023-10-16"`, 1); string(sent.Body) != want {
		t.Errorf("sent\n%s, want\n%s", sent.Body, want)
	}
	if sent.Header.Get("Authorization") != "Bearer ya29.token" || sent.Header.Get("X-Api-Key")+sent.Header.Get("Anthropic-Version")+sent.Header.Get("Openai-Beta") != "" {
		t.Errorf("header %v", sent.Header)
	}
	if sent.Header.Get("Anthropic-Beta") != "context-1m-2025-08-07" {
		t.Errorf("betas are lost: %v", sent.Header)
	}
	for body, want := range map[string]string{
		`{"anthropic_version":"vertex-2023-10-16","model":"m","a":1}`: `{"anthropic_version":"vertex-2023-10-16","a":1}`,
		`{"model":"m"}`:       `{"anthropic_version":"vertex-2023-10-16"}`,
		`{"a":{"model":"m"}}`: `{"a":{"model":"m"}}`,
	} {
		if got := string(claudeBody([]byte(body))); got != want {
			t.Errorf("%s became %s, want %s", body, got, want)
		}
	}
}

func FuzzClaudeBody(f *testing.F) {
	f.Add(`{"model":"m","messages":[]}`)
	f.Add(`{"anthropic_version":"x" , "model" : "m"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var before map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &before) != nil || before == nil {
			return
		}
		if _, wrong := llm.ParseMessages([]byte(body)); wrong != nil {
			return // no such body comes here
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(claudeBody([]byte(body)), &after); err != nil {
			t.Fatalf("%q became no JSON: %v", body, err)
		}
		if _, ok := after["model"]; ok || after["anthropic_version"] == nil {
			t.Fatalf("%q became %v", body, after)
		}
	})
}

// Multi-regions went to us-aiplatform and eu-aiplatform, which do not exist, and base URLs that name the
// region in their host to global-aiplatform.
func TestHostsOfPlaces(t *testing.T) {
	a := newAdapter(t, time.Now)
	for region, host := range map[string]string{
		"": "aiplatform.googleapis.com", "global": "aiplatform.googleapis.com", "us": "aiplatform.us.rep.googleapis.com", "eu": "aiplatform.eu.rep.googleapis.com",
		"europe-west4": "europe-west4-aiplatform.googleapis.com", "us-east5": "us-east5-aiplatform.googleapis.com",
	} {
		place := region
		if place == "" {
			place = "global"
		}
		for _, catalogued := range []string{"https://aiplatform.googleapis.com/v1/projects/p/locations/{region}", "https://{region}-aiplatform.googleapis.com/v1/projects/p/locations/{region}"} {
			if got, want := a.PlaceURL(catalogued, region), "https://"+host+"/v1/projects/p/locations/"+place; got != want {
				t.Errorf("%q in %s: %s, want %s", region, catalogued, got, want)
			}
		}
		for _, fixed := range []string{"https://aiplatform.googleapis.com/v1/projects/p/locations/global", "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"} {
			if got := a.PlaceURL(fixed, region); got != fixed {
				t.Errorf("%s became %s for %q", fixed, got, region)
			}
		}
	}
}

func TestProtocolOfModels(t *testing.T) {
	a := newAdapter(t, time.Now)
	for model, want := range map[string]provider.Adapter{
		"claude-opus-4-1@20250805": a.anthropic, "publishers/anthropic/models/x": a.anthropic, "anthropic/claude-opus-4-6": a.anthropic,
		"gemini-2.5-pro": a.google, "publishers/google/models/gemini": a.google, "google/gemini-2.5-pro": a.google, "publishers/meta/models/llama": a.google, "endpoints/123": a.google,
		"deepseek-ai/deepseek-v3.1-maas": a.open, "meta/llama-3.3-70b-instruct-maas": a.open, "openai/gpt-oss-120b-maas": a.open, "qwen/qwen3-235b-a22b-instruct-2507-maas": a.open,
		"moonshotai/kimi-k2-thinking-maas": a.open, "zai-org/glm-5-maas": a.open, "xai/grok-4.1-fast": a.open, "google/gemma-4-26b-a4b-it-maas": a.open,
	} {
		if a.Of(model) != want {
			t.Errorf("%s is served by the wrong protocol", model)
		}
	}
	for path, want := range map[string]string{
		"models/gemini-2.5-pro:generateContent":        "publishers/google/models/gemini-2.5-pro:generateContent",
		"google/gemini-2.5-pro:generateContent":        "publishers/google/models/gemini-2.5-pro:generateContent",
		"publishers/meta/models/llama:generateContent": "publishers/meta/models/llama:generateContent",
		"endpoints/123:generateContent":                "endpoints/123:generateContent",
	} {
		if got := google(nil, path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
	call := &provider.Call{UpstreamModel: "anthropic/claude-opus-4-6", Facts: &llm.Facts{}}
	if got := claude(call, ""); got != "publishers/anthropic/models/claude-opus-4-6:rawPredict" {
		t.Error(got)
	}
}

// Gemini before 3 on Vertex refused every request with a tool call behind it, for the call's id.
func TestCallIDsByGeneration(t *testing.T) {
	const conversation = `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}]}`
	for model, want := range map[string]int{"gemini-2.5-pro": 0, "google/gemini-2.0-flash-001": 0, "publishers/google/models/gemini-2.5-flash": 0, "gemini-3.1-pro-preview": 2, "gemini-flash-latest": 2} {
		up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Gemini.Plain(said)))
		facts, wrong := llm.ParseChat([]byte(conversation))
		if wrong != nil {
			t.Fatal(wrong)
		}
		answer, failure := newAdapter(t, time.Now).Complete(context.Background(), &provider.Call{
			Endpoint: attempt.EndpointChat, Facts: facts, Body: []byte(conversation), Model: "m", UpstreamModel: model, Secret: "ya29.token",
			Target: &provider.Target{Provider: "p", BaseURL: up.URL + base, AllowPrivate: true},
		})
		if failure != nil {
			t.Fatal(failure)
		}
		answer.Release()
		if sent := string(up.Calls()[0].Body); strings.Count(sent, `"id":"c1"`) != want {
			t.Errorf("%s is asked %s", model, sent)
		}
	}
}

// Open models went to publishers/google/models/..., where nobody is.
func TestOpenModelsGoToTheOpenEndpoint(t *testing.T) {
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Chat.Plain(said)))
	const sent = `{"max_tokens":9, "model":"m","x_new":[1, 2],"messages":[{"role":"user","content":"x"}]}`
	facts, wrong := llm.ParseChat([]byte(sent))
	if wrong != nil {
		t.Fatal(wrong)
	}
	answer, failure := newAdapter(t, time.Now).Complete(context.Background(), &provider.Call{
		Endpoint: attempt.EndpointChat, Facts: facts, Body: []byte(sent), Model: "m", UpstreamModel: "openai/gpt-oss-120b-maas", Secret: "ya29.token",
		Header: http.Header{"Openai-Beta": {"x"}},
		Target: &provider.Target{Provider: "p", BaseURL: up.URL + base, AllowPrivate: true},
	})
	if failure != nil {
		t.Fatal(failure)
	}
	answer.Release()
	got := up.Calls()[0]
	if got.Path != base+"/endpoints/openapi/chat/completions" || got.Header.Get("Authorization") != "Bearer ya29.token" || got.Header.Get("Openai-Beta") != "" {
		t.Errorf("%s with %v", got.Path, got.Header)
	}
	if want := strings.Replace(sent, `"m"`, `"openai/gpt-oss-120b-maas"`, 1); string(got.Body) != want {
		t.Errorf("sent\n%s, want\n%s", got.Body, want)
	}
}

var goodKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return inPEM(key)
})

func inPEM(key any) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// account is a service account whose tokens come from url.
func account(t *testing.T, url string) string { return accountWith(t, goodKey(), url) }

func accountWith(t *testing.T, key, url string) string {
	t.Helper()
	out, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "gw@my-project.iam.gserviceaccount.com", "private_key_id": "k1",
		"private_key": key, "token_uri": url,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`

// A token is fetched once for all who need it, used until a minute before it expires, and fetched again.
func TestTokensOfServiceAccounts(t *testing.T) {
	var fetched atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(r.FormValue("assertion"), ".") != 2 {
			t.Errorf("asked with %v", r.Form)
		}
		time.Sleep(50 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"ya29.%d","token_type":"Bearer","expires_in":3600}`, fetched.Add(1))
	}))
	defer server.Close()
	var later atomic.Int64
	a := newAdapter(t, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Messages.Plain(said)))
	secret := account(t, server.URL)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body); failure != nil {
				t.Error(failure)
			}
		})
	}
	all.Wait()
	if fetched.Load() != 1 {
		t.Errorf("%d tokens for ten calls", fetched.Load())
	}
	later.Store(int64(59*time.Minute + time.Second))
	if failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body); failure != nil {
		t.Fatal(failure)
	}
	calls := up.Calls()
	if first, last := calls[0].Header.Get("Authorization"), calls[10].Header.Get("Authorization"); first != "Bearer ya29.1" || last != "Bearer ya29.2" {
		t.Errorf("%s, then %s", first, last)
	}
}
