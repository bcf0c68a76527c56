package dispatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/gateway/internal/emit"
	"turnout/gateway/internal/poll"
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/openai"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// answered is a client that notes what it gets.
type answered struct {
	plain  string
	failed *llm.APIError
}

func (a *answered) Route(string, string, int) {}
func (a *answered) Streaming()                {}
func (a *answered) Plain(parts ...[]byte) error {
	for _, p := range parts {
		a.plain += string(p)
	}
	return nil
}
func (a *answered) Event(_ bool, parts ...[]byte) error { return a.Plain(parts...) }
func (a *answered) Fail(e *llm.APIError, _ []byte)      { a.failed = e }

// bench is a dispatcher with everything it needs but Kafka and ClickHouse, and a clock to move.
type bench struct {
	*Dispatcher
	mu  sync.Mutex
	now time.Time
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

const benchToken = "to-aaaabbbbccccdddd"

func newBench(t *testing.T, providers ...string) *bench {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(upstream.Close)
	doc := "kind: organization\nid: acme\n---\nkind: project\nid: web\norganization: acme\nrouting: {thresholds: {exploration_rate: 0}}\n" +
		"---\nkind: api_key\nid: web-1\nproject: web\nhash: \"sha256:" + hexOf(benchToken) + "\"\n"
	model := "---\nkind: model\nid: m\nmappings:\n"
	for i, id := range providers {
		doc += fmt.Sprintf("---\n{kind: provider, id: %s, protocol: openai, base_url: \"%s/v1\", allow_private: true, credentials: [{id: main, secret: env:%s}]}\n", id, upstream.URL, id)
		model += fmt.Sprintf("  - {provider: %s, upstream: m, price: {input: %d, output: %d}}\n", id, i+1, i+1)
	}
	path := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(path, []byte(doc+model), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{now: time.Now()}
	log := slog.New(slog.DiscardHandler)
	tenants, err := tenant.Open([]string{path}, tenant.Options{Lookup: func(name string) (string, bool) { return "secret of " + name, true }})
	must(err)
	t.Cleanup(tenants.Close)
	conn, err := chx.Open(chx.Default())
	must(err)
	t.Cleanup(func() { _ = conn.Close() })
	poller := poll.New(conn, time.Minute, b.clock, log)
	states, err := state.New(state.Config{NodeID: "n", HashKey: []byte(strings.Repeat("k", 32)), Now: poller.Now, Log: log})
	must(err)
	t.Cleanup(states.Close)
	cfg := kafkax.Default()
	cfg.Brokers = []string{"127.0.0.1:1"} // nobody: what happened stays in the spool
	client, err := kafkax.Open(cfg, log)
	must(err)
	t.Cleanup(client.Close)
	spool := emit.Default()
	spool.Dir = t.TempDir()
	events, err := emit.Open(spool, client, log, telemetry.NewMetrics())
	must(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = events.Close(ctx) // what is left is the next gateway's
	})
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	b.Dispatcher = New(Config{NodeID: "n", Log: log}, tenants, events, states, poller,
		map[string]provider.Adapter{"openai": openai.New(transports, "test", time.Now)})
	return b
}

// A key that was free when the request was decided may be taken for somebody else's probe before it is
// called. The decision is made again then, also where the request may not move once it has been called.
func TestAProbeThatCameFirstDoesNotFailTheRequest(t *testing.T) {
	for _, c := range []struct {
		what      string
		providers []string
		session   string
		model     string
		served    string
	}{
		{"a session goes to another provider", []string{"alpha", "beta"}, "s1", "m", "beta"},
		{"an ordinary request does", []string{"alpha", "beta"}, "", "m", "beta"},
		{"the only provider is called as the last resort", []string{"alpha"}, "", "m", "alpha"},
		{"a session's only provider too", []string{"alpha"}, "s1", "m", "alpha"},
		{"a named one as well", []string{"alpha", "beta"}, "", "alpha:m", "alpha"},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBench(t, c.providers...)
			reply := &answered{}
			req := &Request{ID: newID(), Endpoint: attempt.EndpointChat, Token: benchToken, Header: http.Header{}, ReadAt: time.Now(),
				Body: []byte(`{"model":"` + c.model + `","messages":[{"role":"user","content":"hi"}]}`)}
			if c.session != "" {
				req.Header.Set("X-Session-Id", c.session)
			}
			r := &run{d: b.Dispatcher, req: req, reply: reply, deadline: time.Now().Add(time.Minute)}
			view := b.tenants.Current()
			m, _ := view.Catalog.Model("m")
			project, _ := view.Project("web")
			key := b.plansOf(view).get(project, m, attempt.EndpointChat).legs[0].health[0]
			for range 3 {
				use, _ := key.Begin(b.clock(), false)
				use.End(b.clock(), state.Failure, 0)
			}
			b.pass(2 * state.DefaultCooldownBase)
			if failed := r.identify(); failed != nil {
				t.Fatal(failed)
			}
			if failed := r.decide(); failed != nil || r.plan.legs[r.first.Selected].candidate.Provider.ID != "alpha" {
				t.Fatalf("decided %v %+v", failed, r.first)
			}
			probe, ok := key.Begin(b.clock(), false)
			if !ok || !probe.Probe {
				t.Fatal("no probe")
			}
			r.attempts(context.Background())
			if reply.failed != nil || !strings.Contains(reply.plain, "fine") || r.event.Provider != c.served {
				t.Fatalf("failed %v, answer %q", reply.failed, reply.plain)
			}
			if place, ok := b.state.Place(r.pinKey); c.session != "" && (!eventually(func() bool { place, ok = b.state.Place(r.pinKey); return ok && place.Provider == c.served })) {
				t.Errorf("pinned to %v (%v)", place, ok)
			}
		})
	}
}

// A hundred tenants of one model cost one weighing, not a hundred.
func TestProjectsOfOneHistoryShareTheirWeighing(t *testing.T) {
	b := newBench(t, "alpha", "beta")
	view := b.tenants.Current()
	m, _ := view.Catalog.Model("m")
	web, _ := view.Project("web")
	plans := b.plansOf(view)
	watch := plans.get(web, m, attempt.EndpointChat).watch
	for what, c := range map[string]struct {
		endpoint string
		change   func(*resource.Project)
		same     bool
	}{
		"another project":           {attempt.EndpointChat, func(*resource.Project) {}, true},
		"another window":            {attempt.EndpointChat, func(p *resource.Project) { p.Routing.History.WindowMinutes = 30 }, false},
		"another minimum":           {attempt.EndpointChat, func(p *resource.Project) { p.Routing.Thresholds.UptimeMinAttempts = 3 }, false},
		"another class of requests": {attempt.EndpointEmbeddings, func(*resource.Project) {}, false},
	} {
		p := *web.Project
		p.ID = what
		c.change(&p)
		other := *web
		other.Project = &p
		if got := plans.get(&other, m, c.endpoint).watch; (got == watch) != c.same {
			t.Errorf("%s: shared %v", what, got == watch)
		}
	}
}

// pinned serves one view.
type pinned struct{ view *tenant.View }

func (p pinned) Current() *tenant.View { return p.view }

// After a reload the plans of the new view are made once, however many requests come at the same moment,
// and a request that began before it does not throw them away.
func TestPlansOfAViewAreMadeOnce(t *testing.T) {
	b := newBench(t, "alpha")
	before := b.tenants.Current()
	b.plansOf(before)
	after := newBench(t, "alpha").tenants.Current()
	b.tenants = pinned{after}
	const requests = 64
	var made [requests]*plans
	var ready, done sync.WaitGroup
	ready.Add(requests)
	for i := range made {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			made[i] = b.plansOf(after)
		})
	}
	done.Wait()
	for _, p := range made {
		if p != made[0] {
			t.Fatal("plans of one view were made twice")
		}
	}
	if late := b.plansOf(before); late.view != before {
		t.Error("a request of the view before is planned by another")
	}
	if b.plansOf(after) != made[0] {
		t.Error("a request of the view before threw the new plans away")
	}
}

func hexOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// eventually waits for what the cache of pins takes in behind the caller's back.
func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}
