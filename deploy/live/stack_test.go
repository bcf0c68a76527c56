package live

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/sim"
	"turnout/gateway"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/processor"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// host is a simulated provider as a test sets it up. It serves every model of the test.
type host struct {
	id            string
	input, output string // prices; "" is 1 and 2
	cached        string // "" is none
	ttft, rate    float64
	answer        float64           // tokens; 0 is 10
	only          map[string]string // model -> the rest of its mapping; nil: every model
	priceOf       map[string]string // model -> price, instead of input, cached and output
}

// setup is what a test's gateways serve.
type setup struct {
	hosts    []host
	models   []string          // ids; nil: m alone
	of       map[string]string // model -> more of its document
	workload string
	routing  string            // of the project "main", as YAML
	strategy string            // of the project "main"
	projects map[string]string // more projects: id -> routing
}

// stack is the system around the gateways of one test.
type stack struct {
	t      *testing.T
	setup  setup
	sim    *sim.Server
	simURL string
	dir    string
	file   string
	kafka  kafkax.Config
	ch     chx.Config
	db     *chx.Conn // nil without rows
}

// newStack starts Kafka and the simulated providers, and with rows a processor and ClickHouse too.
func newStack(t *testing.T, s setup, rows bool) *stack {
	t.Helper()
	st := &stack{t: t, setup: s, dir: t.TempDir(), kafka: kafkatest.New(t, 3)}
	st.file = filepath.Join(st.dir, "resources.yaml")
	var providers []sim.Provider
	for _, h := range s.hosts {
		b := sim.DefaultBehavior()
		b.TTFT, b.TokenRate, b.OutputTokens = sim.Fixed(h.ttft), sim.Fixed(h.rate), sim.Fixed(max(h.answer, 1))
		if h.answer == 0 {
			b.OutputTokens = sim.Fixed(10)
		}
		p := sim.Provider{ID: h.id, Keys: []string{sim.Key(h.id)}, Behavior: b}
		for _, id := range s.served() {
			p.Models = append(p.Models, sim.Model{ID: id})
		}
		providers = append(providers, p)
	}
	var err error
	if st.sim, err = sim.New(sim.Options{Seed: 1, Providers: providers}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	st.sim.Start(ln)
	st.simURL = "http://" + ln.Addr().String()
	t.Cleanup(func() { _ = st.sim.Close() })
	st.write(s)
	st.ch = chx.Default()
	st.ch.Addr = []string{"127.0.0.1:1"}
	if rows {
		st.processor()
	}
	return st
}

func (s *stack) processor() {
	t := s.t
	t.Helper()
	s.ch = chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), s.ch); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.db, err = chx.Open(s.ch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	cfg := processor.DefaultConfig()
	cfg.Processor.Listen, cfg.Kafka, cfg.ClickHouse = "127.0.0.1:0", s.kafka, s.ch
	logs := &lockedBuffer{}
	log := telemetry.DefaultLog()
	p, err := processor.New(cfg, log.New(logs), telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	s.background("processor", logs, p.Run)
}

// background runs a component until the test ends.
func (s *stack) background(name string, logs *lockedBuffer, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, logs)
		}
	})
}

func tokenOf(project string) string { return "to-live-" + project + "-0000000000000000000000000000" }

// write writes the resource file; gateways that run read it again.
func (s *stack) write(set setup) {
	s.t.Helper()
	var b strings.Builder
	for _, h := range set.hosts {
		fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: openai\nbase_url: %s/%s/v1\nallow_private: true\ntrace: true\ncredentials: [{id: main, secret: env:KEY_%s}]\n---\n",
			h.id, s.simURL, h.id, strings.ToUpper(h.id))
	}
	for _, id := range set.served() {
		fmt.Fprintf(&b, "kind: model\nid: %s\noutput: [text]\n%smappings:\n", id, set.of[id])
		for _, h := range set.hosts {
			more, ok := h.only[id]
			if h.only != nil && !ok {
				continue
			}
			price := h.priceOf[id]
			if price == "" {
				price = h.price()
			}
			fmt.Fprintf(&b, "  - {provider: %s, upstream: %s, price: %s%s}\n", h.id, id, price, more)
		}
		b.WriteString("---\n")
	}
	workload := set.workload
	if workload == "" {
		workload = "api"
	}
	fmt.Fprintf(&b, "kind: organization\nid: org\nworkload: %s\n", workload)
	project := func(id, strategy, routing string) {
		if routing == "" {
			routing = "{}"
		}
		sum := sha256.Sum256([]byte(tokenOf(id)))
		fmt.Fprintf(&b, "---\nkind: project\nid: %s\norganization: org\n%srouting: %s\n---\nkind: api_key\nid: %s-key\nproject: %s\nhash: sha256:%s\n",
			id, strategy, routing, id, id, hex.EncodeToString(sum[:]))
	}
	strategy := ""
	if set.strategy != "" {
		strategy = "default_strategy: " + set.strategy + "\n"
	}
	project("main", strategy, set.routing)
	for id, routing := range set.projects {
		project(id, "", routing)
	}
	temp := s.file + ".new"
	if err := os.WriteFile(temp, []byte(b.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, s.file); err != nil {
		s.t.Fatal(err)
	}
}

func (h *host) price() string {
	input, output := h.input, h.output
	if input == "" {
		input, output = "1", "2"
	}
	if h.cached != "" {
		return fmt.Sprintf("{input: %s, output: %s, cached_input: %s}", input, output, h.cached)
	}
	return fmt.Sprintf("{input: %s, output: %s}", input, output)
}

func (s setup) served() []string {
	if s.models == nil {
		return []string{"m"}
	}
	return s.models
}

// change returns the setup with some hosts changed.
func (s setup) change(change func(*host)) setup {
	s.hosts = slices.Clone(s.hosts)
	for i := range s.hosts {
		change(&s.hosts[i])
	}
	return s
}

// set changes how a provider behaves.
func (s *stack) set(provider, change string) {
	s.t.Helper()
	if err := s.sim.Set(provider, []byte(change)); err != nil {
		s.t.Fatal(err)
	}
}

// node is a gateway in this process, started by its own entry point.
type node struct {
	t     *testing.T
	url   string
	hosts []string
	logs  *lockedBuffer
}

// args are the settings of a gateway that keeps its spool in a folder of its own.
func (s *stack) args(name, listen string) []string {
	return []string{
		"--listen", listen, "--admin_listen", "127.0.0.1:0", "--resources", s.file, "--node_id", name,
		"--spool.dir", filepath.Join(s.dir, "spool-"+name), "--spool.fsync", "never", "--poll_interval", "500ms",
		"--hash_key", strings.Repeat("k", 32), "--shutdown_timeout", "3s",
		"--kafka.brokers", strings.Join(s.kafka.Brokers, ","), "--clickhouse.addr", s.ch.Addr[0],
		"--clickhouse.database", s.ch.Database, "--clickhouse.username", s.ch.Username, "--clickhouse.password", s.ch.Password.Reveal(),
	}
}

// environ holds the providers' keys, and what the test adds.
func (s *stack) environ(more ...string) []string {
	for _, h := range s.setup.hosts {
		more = append(more, "KEY_"+strings.ToUpper(h.id)+"="+sim.Key(h.id))
	}
	return more
}

// gateway starts a gateway and waits until it is ready.
func (s *stack) gateway(name string, environ ...string) *node {
	s.t.Helper()
	port, err := process.FreePort()
	if err != nil {
		s.t.Fatal(err)
	}
	listen := process.Loopback(port)
	n := &node{t: s.t, url: "http://" + listen, logs: &lockedBuffer{}}
	for _, h := range s.setup.hosts {
		n.hosts = append(n.hosts, h.id)
	}
	env := lifecycle.Env{Args: s.args(name, listen), Environ: s.environ(environ...), Stdout: n.logs, Stderr: n.logs}
	s.background(name, n.logs, func(ctx context.Context) error { return gateway.Main(ctx, env, nil) })
	testkit.Eventually(s.t, 15*time.Second, name+" is ready", func() error {
		resp, err := http.Get(n.url + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
	return n
}

// reloaded waits until the node has read the resources again since it logged what stood there before.
func (n *node) reloaded(before int) {
	n.t.Helper()
	testkit.Eventually(n.t, 5*time.Second, "resources are read again", func() error {
		if got := n.reloads(); got <= before {
			return fmt.Errorf("read %d times", got)
		}
		return nil
	})
}

func (n *node) reloads() int { return strings.Count(n.logs.String(), "resources changed") }

// rewrite writes the resources and waits until the nodes serve them.
func (s *stack) rewrite(set setup, nodes ...*node) {
	s.t.Helper()
	before := make([]int, len(nodes))
	for i, n := range nodes {
		before[i] = n.reloads()
	}
	s.setup = set
	s.write(set)
	for i, n := range nodes {
		n.reloaded(before[i])
	}
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
