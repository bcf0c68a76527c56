package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"turnout/internal/chx"
	"turnout/internal/testkit/kafkatest"
	"turnout/internal/testkit/upstream"
)

// met is what a client did when it met with a failure.
type met struct {
	Client   string `json:"client"`
	Failure  string `json:"failure"`
	Form     string `json:"form"` // plain or stream
	Raised   bool   `json:"raised"`
	Error    string `json:"error"`
	Status   int    `json:"status"` // of the error; 0: it has none
	Text     string `json:"text"`
	Finish   string `json:"finish"`
	Requests int    `json:"requests"`
	MS       int64  `json:"ms"`
}

// failing is what a provider does, and what every client must make of it.
type failing struct {
	name          string
	plain, stream string // scripts of the provider
	status        []int  // one of these; of a stream that had begun: none
	text          string // what of a stream arrived before
	requests      int    // at most: SDKs try 5xx and 429 twice more, nothing else
	least         time.Duration
}

const upstreamError = `json:"{\"error\":{\"message\":\"no such luck\",\"type\":\"t\",\"code\":null}}"`

// retrying is how many requests an SDK makes of its own accord.
const retrying = 3

func failings() []failing {
	both := func(f failing, script string) failing { f.plain, f.stream = script, script; return f }
	return []failing{
		both(failing{name: "key", status: []int{401}, requests: 1}, `200 chat:unused`),
		both(failing{name: "mistake", status: []int{400}, requests: 1}, `400 `+upstreamError),
		both(failing{name: "limited", status: []int{429}, requests: retrying, least: time.Second}, `429 h:"Retry-After: 1" `+upstreamError),
		both(failing{name: "down", status: []int{502, 503}, requests: retrying}, `500 `+upstreamError),
		both(failing{name: "late", status: []int{504, 503}, requests: retrying}, `hold`),
		both(failing{name: "hang", status: []int{0}, requests: 1, least: time.Second}, `hold`),
		{name: "cut", plain: `200 len:1000 json:"{\"choices\":[" fin`, stream: `200 sse role text:1 text:2 text:3 fin`, status: []int{502, 503}, text: "123", requests: retrying},
		{name: "event", plain: `200 ` + upstreamError, stream: `200 sse role text:1 text:2 text:3 chunk:"{\"error\":{\"message\":\"no such luck\",\"type\":\"overloaded_error\",\"code\":529}}" hold`,
			status: []int{502, 503}, text: "123", requests: retrying},
		{name: "unended", plain: `200 json:"{\"choices\":[]}"`, stream: `200 sse role text:1 text:2 text:3 done`, status: []int{502, 503}, text: "123", requests: retrying},
	}
}

// failureClients are those that the tests drive; each has models, providers and upstreams of its own.
var failureClients = []string{"openai-go", "openai", "ai"}

// failures starts a gateway whose models fail, one <client>-<failure>-<form> each.
func failures(t *testing.T) (*node, map[string]*upstream.Server) {
	t.Helper()
	s := &system{t: t, dir: t.TempDir(), kafka: kafkatest.New(t, 3), clickhouse: chx.Default()}
	s.clickhouse.Addr = []string{"127.0.0.1:1"} // it is not needed
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("sk-failures-000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	upstreams := map[string]*upstream.Server{}
	var b strings.Builder
	for _, client := range failureClients {
		for _, f := range failings() {
			for form, script := range map[string]string{"plain": f.plain, "stream": f.stream} {
				id := client + "-" + f.name + "-" + form
				u := upstream.New(t, script)
				upstreams[id] = u
				timeouts := ""
				if f.name == "late" {
					timeouts = "timeouts: {first_byte: 300ms, first_output: 300ms}\n"
				}
				// A key for each: what happens to one is no other's business.
				fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: openai\nbase_url: %s/v1\nallow_private: true\n%scredentials:\n  - {id: k, secret: file:%s-%s}\n---\n", id, u.URL, timeouts, secret, id)
				if err := os.WriteFile(secret+"-"+id, []byte("sk-"+id+"-0000000000"), 0o600); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "kind: model\nid: %s\noutput: [text]\nmappings:\n  - {provider: %s, upstream: up, price: {input: 1, output: 2}}\n---\n", id, id)
			}
		}
	}
	fmt.Fprintf(&b, "kind: organization\nid: acme\nworkload: api\n---\nkind: project\nid: web\norganization: acme\nmode: platform\nrouting: {retry: {max_retries: 0}}\n---\nkind: api_key\nid: web-1\nproject: web\nhash: %q\n", hashOf(token))
	s.resources = filepath.Join(s.dir, "failing.yaml")
	if err := os.WriteFile(s.resources, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.gateway("node-a"), upstreams
}

// check holds what a client did against what it must do: raise, not hang, not loop.
func check(t *testing.T, f failing, m met, u *upstream.Server) {
	t.Helper()
	begun := m.Form == "stream" && f.text != ""
	status, requests := f.status, f.requests
	if begun {
		status, requests = []int{0}, 1 // nobody may try again what was half shown
	}
	ok := false
	for _, s := range status {
		ok = ok || m.Status == s
	}
	switch {
	case !m.Raised:
		t.Errorf("%s does not raise: %+v", m.Client, m)
	case !ok && (!begun || m.Status != http.StatusOK):
		t.Errorf("%s: status %d, want one of %v: %+v", m.Client, m.Status, status, m)
	case m.Requests < 1 || m.Requests > requests:
		t.Errorf("%s made %d requests, want at most %d: %+v", m.Client, m.Requests, requests, m)
	case m.MS > 30_000 || (!begun && m.MS < f.least.Milliseconds()):
		t.Errorf("%s took %d ms, want at least %v: %+v", m.Client, m.MS, f.least, m)
	case m.Finish == "stop":
		t.Errorf("%s takes it for finished: %+v", m.Client, m)
	case begun && m.Text != f.text, !begun && m.Text != "":
		t.Errorf("%s got the text %q: %+v", m.Client, m.Text, m)
	}
	if n := len(u.Calls()); n > requests {
		t.Errorf("%s: %d upstream calls", m.Client, n)
	}
	if f.name == "hang" && u.Gone() != 1 {
		t.Errorf("%s gave up and %d upstream calls were let go, want 1", m.Client, u.Gone())
	}
	t.Logf("%s: %d requests, %d upstream calls, %d ms, %q: %.150s", m.Client, m.Requests, len(u.Calls()), m.MS, m.Text, m.Error)
}

// TestSDKFailures: OpenAI's SDK for Go raises, does not hang and does not loop on any failure.
func TestSDKFailures(t *testing.T) {
	t.Parallel()
	g, upstreams := failures(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]met{}
	for _, f := range failings() {
		for _, form := range []string{"plain", "stream"} {
			wg.Go(func() {
				m := meet(t.Context(), g.url, f.name, form)
				mu.Lock()
				defer mu.Unlock()
				got[f.name+form] = m
			})
		}
	}
	wg.Wait()
	time.Sleep(time.Second) // by then an upstream whose client gave up has been let go
	for _, f := range failings() {
		for _, form := range []string{"plain", "stream"} {
			t.Run(f.name+"/"+form, func(t *testing.T) {
				check(t, f, got[f.name+form], upstreams["openai-go-"+f.name+"-"+form])
			})
		}
	}
}

// meet sends one request with openai-go as its users do: with its own retries.
func meet(ctx context.Context, url, failure, form string) met {
	m := met{Client: "openai-go", Failure: failure, Form: form}
	var requests atomic.Int64
	options := []option.RequestOption{option.WithBaseURL(url + "/v1"), option.WithAPIKey(token),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			requests.Add(1)
			return next(r)
		})}
	switch failure {
	case "key":
		options = append(options, option.WithAPIKey("to-nobody"))
	case "hang":
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
	}
	client, began := openai.NewClient(options...), time.Now()
	p := question("openai-go-"+failure+"-"+form, 0)
	var err error
	if form == "plain" {
		var answer *openai.ChatCompletion
		if answer, err = client.Chat.Completions.New(ctx, p); err == nil {
			m.Finish = answer.Choices[0].FinishReason
		}
	} else {
		stream := client.Chat.Completions.NewStreaming(ctx, p)
		for stream.Next() {
			if chunk := stream.Current(); len(chunk.Choices) > 0 {
				m.Text += chunk.Choices[0].Delta.Content
				m.Finish += chunk.Choices[0].FinishReason
			}
		}
		err = stream.Err()
		_ = stream.Close()
	}
	m.MS, m.Requests = time.Since(began).Milliseconds(), int(requests.Load())
	if m.Raised = err != nil; m.Raised {
		m.Error = err.Error()
		if refusal := (*openai.Error)(nil); errors.As(err, &refusal) {
			m.Status = refusal.StatusCode
		}
	}
	return m
}
