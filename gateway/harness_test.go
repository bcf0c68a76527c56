package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/gateway/internal/state"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const token = "to-test-0000000000000000000000000000"

// upstreams are scripted providers behind one listener: /<provider>/v1/chat/completions.
type upstreams struct {
	*httptest.Server
	mu      sync.Mutex
	scripts map[string]http.HandlerFunc
	calls   []upstreamCall
}

type upstreamCall struct {
	provider, span, secret, model string
	body                          []byte
	header                        http.Header
	gone                          time.Time // when the caller left before the answer was complete
}

func newUpstreams(t *testing.T) *upstreams {
	u := &upstreams{scripts: map[string]http.HandlerFunc{}}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	return u
}

func (u *upstreams) serve(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.URL.Path[1:], "/")
	body, _ := io.ReadAll(r.Body)
	var request struct{ Model string }
	_ = json.Unmarshal(body, &request)
	c := upstreamCall{provider: name, secret: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), model: request.Model, body: body, header: r.Header.Clone()}
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		c.span = parts[2]
	}
	u.mu.Lock()
	script := u.scripts[name]
	u.calls = append(u.calls, c)
	n := len(u.calls) - 1
	u.mu.Unlock()
	if script == nil {
		script = answer("hello from " + name)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	script(w, r)
	if r.Context().Err() != nil {
		u.mu.Lock()
		u.calls[n].gone = time.Now()
		u.mu.Unlock()
	}
}

func (u *upstreams) script(provider string, h http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scripts[provider] = h
}

func (u *upstreams) called(provider string) []upstreamCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []upstreamCall
	for _, c := range u.calls {
		if provider == "" || c.provider == provider {
			out = append(out, c)
		}
	}
	return out
}

// answer serves a good answer, plain or as a stream, as it is asked.
func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Stream bool }
		_ = json.NewDecoder(r.Body).Decode(&request)
		if !request.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, text)
			return
		}
		chunks(w, text, "stop", true)
	}
}

// chunks writes a stream word by word.
func chunks(w http.ResponseWriter, text, finish string, done bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i, word := range strings.Fields(text) {
		role := ""
		if i == 0 {
			role = `"role":"assistant",`
		}
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":%q},\"finish_reason\":null}]}\n\n", role, word)
		w.(http.Flusher).Flush()
	}
	if finish != "" {
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", finish)
		fmt.Fprint(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}\n\n")
	}
	if done {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
	w.(http.Flusher).Flush()
}

// status answers with an error in OpenAI's shape.
func status(code int, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"t","code":null}}`, message)
	}
}

// providerSpec is one scripted provider of the test's resources.
type providerSpec struct {
	id, price string
	keys      int
	extra     string // of the provider document
	mapping   string // of the mapping
}

// resources renders providers that all serve the model m, and one project.
func resources(base string, routing string, providers ...providerSpec) string {
	var b strings.Builder
	for _, p := range providers {
		fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: openai\nbase_url: %s/%s/v1\nallow_private: true\ntrace: true\ncredentials:\n", p.id, base, p.id)
		for k := range max(p.keys, 1) {
			fmt.Fprintf(&b, "  - {id: k%d, secret: env:SECRET_%s_%d}\n", k, strings.ToUpper(p.id), k)
		}
		b.WriteString(p.extra + "\n---\n")
	}
	b.WriteString("kind: model\nid: m\naliases: [m-alias]\noutput: [text]\nmappings:\n")
	for _, p := range providers {
		price := p.price
		if price == "" {
			price = "{input: 1, output: 2}"
		}
		fmt.Fprintf(&b, "  - {provider: %s, upstream: up-%s, price: %s%s}\n", p.id, p.id, price, p.mapping)
	}
	sum := sha256.Sum256([]byte(token))
	fmt.Fprintf(&b, "---\nkind: organization\nid: acme\nworkload: api\n---\nkind: project\nid: web\norganization: acme\nmode: platform\nrouting: %s\n---\nkind: api_key\nid: web-1\nproject: web\nhash: sha256:%s\n", routing, hex.EncodeToString(sum[:]))
	fmt.Fprintf(&b, "---\nkind: api_key\nid: web-old\nproject: web\nrevoked: true\nhash: sha256:%s\n", hexSum("to-revoked"))
	return b.String()
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// noExploration keeps tests from being surprised.
const noExploration = "{thresholds: {exploration_rate: 0}, sticky: {enabled: false}}"

// node is a running gateway.
type node struct {
	t      *testing.T
	g      *Gateway
	lookup func(string) (string, bool)
	url    string
	admin  string
	file   string
	kafka  kafkax.Config
	logs   *lockedBuffer
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// secrets makes keys that no other test has: nodes of one broker tell each other of bad ones.
func secrets() func(name string) (string, bool) {
	tail := fmt.Sprintf("-%010d", nonce.Add(1))
	return func(name string) (string, bool) {
		if s, ok := strings.CutPrefix(name, "SECRET_"); ok {
			return "sk-" + strings.ToLower(s) + tail, true
		}
		return "", false
	}
}

var nonce atomic.Int64

// start runs a gateway on the resources; change may adjust its settings. A broker is started if none
// is set. ClickHouse is away unless it is set.
func start(t *testing.T, documents string, change func(*Config), secret ...func(string) (string, bool)) *node {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Resources = []string{file}
	cfg.Spool.Dir, cfg.Spool.Fsync = filepath.Join(dir, "spool"), "never"
	cfg.NodeID = "node-1"
	cfg.HashKey = "one key for all nodes of tests"
	cfg.ShutdownTimeout = 3 * time.Second
	cfg.ClickHouse.Addr = []string{"127.0.0.1:1"}
	cfg.Kafka.Brokers = nil
	if change != nil {
		change(&cfg)
	}
	if cfg.Kafka.Brokers == nil {
		cfg.Kafka = kafkatest.New(t, 3)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, lookup: secrets(), file: file, kafka: cfg.Kafka, logs: &lockedBuffer{}, done: make(chan error, 1)}
	if len(secret) > 0 {
		n.lookup = secret[0]
	}
	var err error
	if n.g, err = New(cfg, slog.New(slog.NewTextHandler(n.logs, nil)), n.lookup); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.g.listen(ctx); err != nil {
		t.Fatal(err)
	}
	n.url, n.admin = "http://"+n.g.listener.Addr().String(), "http://"+n.g.adminListener.Addr().String()
	go func() { n.done <- n.g.Run(ctx) }()
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Log(n.logs.String())
		}
	})
	return n
}

func (n *node) ready() *node {
	n.t.Helper()
	eventually(n.t, "the node is ready", 15*time.Second, func() bool { return len(n.g.Ready()) == 0 })
	return n
}

func (n *node) stop() {
	n.once.Do(func() {
		n.cancel()
		if err := <-n.done; err != nil {
			n.t.Errorf("Run: %v", err)
		}
	})
}

func eventually(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   string
}

// json reads a path such as error.code or metadata.routing.0.provider; nil if there is nothing.
func (r reply) at(path string) any {
	var v any
	_ = json.Unmarshal([]byte(r.body), &v)
	return dig(v, path)
}

func dig(v any, path string) any {
	for _, p := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			var i int
			if _, err := fmt.Sscan(p, &i); err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

const chatBody = `{"model":"m","messages":[{"role":"user","content":"Hello world"}]}`
const streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello world"}]}`

func (n *node) chat(body string, header ...string) reply {
	n.t.Helper()
	return n.do("POST", n.url+"/v1/chat/completions", body, header...)
}

func (n *node) do(method, url, body string, header ...string) reply {
	n.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// events reads the whole log until it holds want events, and a moment longer for those too many.
func (n *node) events(want int) []*attempt.Event {
	n.t.Helper()
	var out []*attempt.Event
	n.read(topic.Attempts, 3, want, func(value []byte) {
		e, err := attempt.Decode(value)
		if err != nil {
			n.t.Fatal(err)
		}
		out = append(out, e)
	})
	return out
}

func (n *node) read(name string, partitions, want int, each func(value []byte)) {
	n.t.Helper()
	client, err := kafkax.Open(n.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	count := func() (n int64) {
		for p := range partitions {
			if _, next, err := client.Bounds(ctx, name, p); err == nil {
				n += next
			}
		}
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); count() < int64(want) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for one too many
	got := 0
	for p := range partitions {
		first, next, err := client.Bounds(ctx, name, p)
		if err != nil {
			n.t.Fatal(err)
		}
		f := client.NewFetcher(name, p, first)
		for first < next {
			records, err := f.Fetch(ctx, 10_000)
			if err != nil {
				n.t.Fatal(err)
			}
			for _, r := range records {
				got++
				first = r.Offset + 1
				each(r.Value)
			}
		}
		f.Close()
	}
	if got != want {
		n.t.Fatalf("%s holds %d records, want %d", name, got, want)
	}
}

// balanced checks that each upstream call has exactly one event, by span id.
func balanced(t *testing.T, u *upstreams, events []*attempt.Event) {
	t.Helper()
	rows := map[string]int{}
	for _, e := range events {
		rows[e.SpanID]++
	}
	for _, c := range u.called("") {
		if rows[c.span] != 1 {
			t.Errorf("the call to %s with span %q has %d events", c.provider, c.span, rows[c.span])
		}
		delete(rows, c.span)
	}
	for span, n := range rows {
		t.Errorf("%d events of span %s without a call", n, span)
	}
}

// noLeaks fails the test if goroutines outlive it.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

// keyID names a provider's first key in the health table.
func (n *node) keyID(provider string) state.KeyID {
	secret, _ := n.lookup("SECRET_" + strings.ToUpper(provider) + "_0")
	return state.KeyID{Provider: provider, Secret: n.g.state.SecretHash(secret)}
}

// heal lets a key's cooldown end by a success.
func (n *node) heal(provider string) {
	k := n.g.state.Keys().Get(n.keyID(provider), 0, 0)
	if use, ok := k.Begin(n.g.poller.Now(), true); ok {
		use.End(n.g.poller.Now(), state.Success, 0)
	}
}
