package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/schemas/topic"
)

const (
	token      = "to-chaos-000000000000000000000000000000"
	projectID  = "chaos"
	rate       = 25 // requests/s at each gateway
	partitions = 6
)

// rig is a whole Turnout whose every part can be killed and started again.
type rig struct {
	t          *testing.T
	dir        string
	kafka      *kafkatest.Broker
	clickhouse *chtest.Server
	client     *kafkax.Client
	db         *chx.Conn
	sim        *sim.Server
	gateways   []*node
	processors []*node
	rng        *rand.Rand

	requests, answered int // of the load so far
	mu                 sync.Mutex
}

// node is a gateway or a processor.
type node struct {
	name, role string
	args       []string
	trap       string // file
	hold       string // file
	url, admin string
	dir        string
	lives      int
	proc       *process.Process
}

func newRig(t *testing.T, gateways, processors int) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), kafka: kafkatest.Start(t, partitions), clickhouse: chtest.Start(t), rng: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))}
	ch := r.clickhouse.Config()
	if _, _, err := migrations.Up(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.db, err = chx.Open(ch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	if r.client, err = kafkax.Open(r.kafka.Config(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	resources := r.providers()
	engines := []string{
		"--kafka.brokers", strings.Join(r.kafka.Config().Brokers, ","), "--clickhouse.addr", ch.Addr[0], "--clickhouse.database", ch.Database,
		"--clickhouse.username", ch.Username, "--clickhouse.password", ch.Password.Reveal(), "--log.level", "warn", "--shutdown_timeout", "10s",
	}
	for i := range gateways {
		listen, admin := r.address(), r.address()
		// One spool directory for all, so that they adopt each other's, and segments so small that they rotate.
		n := r.node(fmt.Sprintf("gateway-%d", i), "gateway", append([]string{
			"--listen", listen, "--admin_listen", admin, "--resources", resources, "--node_id", fmt.Sprintf("gateway-%d", i), "--poll_interval", "1s",
			"--spool.dir", filepath.Join(r.dir, "spool"), "--spool.max_bytes", strconv.Itoa(2 << 20), "--hash_key", strings.Repeat("k", 32),
		}, engines...))
		n.url, n.admin = "http://"+listen, "http://"+admin
		r.gateways = append(r.gateways, n)
	}
	for i := range processors {
		listen := r.address()
		n := r.node(fmt.Sprintf("processor-%d", i), "processor", append([]string{"--processor.listen", listen}, engines...))
		n.url, n.admin = "http://"+listen, "http://"+listen
		r.processors = append(r.processors, n)
	}
	for _, n := range r.nodes() {
		r.start(n)
	}
	r.ready()
	return r
}

// providers starts the simulated ones, a fifth of whose calls fail, and returns the resources file.
func (r *rig) providers() string {
	r.t.Helper()
	list := slices.Clone(sim.Default())
	for i := range list {
		list[i].Behavior.TTFT, list[i].Behavior.TokenRate = sim.Fixed(15), sim.Fixed(200)
	}
	var err error
	if r.sim, err = sim.New(sim.Options{Seed: 1, Providers: list, LedgerEntries: 1_000_000}); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range list {
		if err := r.sim.Set(p.ID, []byte(`{"error_rate":0.2,"error_kinds":["server_error","in_band","unavailable"],"cut_rate":0.03,"cut_after_chunks":2}`)); err != nil {
			r.t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.sim.Start(ln)
	r.t.Cleanup(func() { _ = r.sim.Close() })
	secret, err := sim.WriteKeys(filepath.Join(r.dir, "keys"))
	if err != nil {
		r.t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	data, err := sim.Resources(sim.ResourceOptions{BaseURL: "http://" + ln.Addr().String(), Providers: list, Secret: secret,
		Projects: []sim.Project{{ID: projectID, KeyHash: "sha256:" + hex.EncodeToString(sum[:])}}})
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.dir, "resources.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *rig) address() string {
	r.t.Helper()
	port, err := process.FreePort()
	if err != nil {
		r.t.Fatal(err)
	}
	return process.Loopback(port)
}

func (r *rig) node(name, role string, args []string) *node {
	return &node{name: name, role: role, args: args, dir: r.dir, trap: filepath.Join(r.dir, name+".trap"), hold: filepath.Join(r.dir, name+".hold")}
}

func (r *rig) nodes() []*node { return append(slices.Clone(r.gateways), r.processors...) }

func (r *rig) of(role string) []*node {
	if role == "gateway" {
		return r.gateways
	}
	return r.processors
}

func (r *rig) start(n *node) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	n.lives++
	cmd := exec.Command(self, n.args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TURNOUT_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, roleVariable+"="+n.role, trapVariable+"="+n.trap)
	if n.proc, err = process.Start(n.name, filepath.Join(n.dir, fmt.Sprintf("%s-%d.log", n.name, n.lives)), cmd); err != nil {
		r.t.Fatal(err)
	}
	proc := n.proc
	r.t.Cleanup(func() {
		proc.Kill()
		if r.t.Failed() && n.proc == proc {
			r.t.Logf("log of %s, life %d:\n%s", n.name, n.lives, proc.Log())
		}
	})
}

func (n *node) dead() bool {
	select {
	case <-n.proc.Done():
		return true
	default:
		return false
	}
}

// set writes the trap file; an empty trap clears it.
func (n *node) set(t trap) error {
	data, err := json.Marshal(t)
	if err == nil {
		err = os.WriteFile(n.trap+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(n.trap+".new", n.trap)
	}
	return err
}

// revive starts whoever is dead.
func (r *rig) revive() {
	r.t.Helper()
	for _, n := range r.nodes() {
		if n.dead() {
			r.start(n)
		}
	}
}

// ready waits until every node says that it is.
func (r *rig) ready() {
	r.t.Helper()
	for _, n := range r.nodes() {
		r.eventually(time.Minute, n.name+" is ready", func() error {
			if n.dead() {
				r.t.Fatalf("%s ended by itself:\n%s", n.name, n.proc.Log())
			}
			status, body := get(n.url + "/readyz")
			if status != http.StatusOK {
				return fmt.Errorf("readyz: %d %s", status, body)
			}
			return nil
		})
	}
}

func get(url string) (status int, body string) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// metric reads a value without labels, -1 if it is not there.
func (n *node) metric(name string) float64 {
	_, text := get(n.admin + "/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return v
			}
		}
	}
	return -1
}

// loaded sends requests to every gateway until the function it returns is called; that waits for the
// last answers.
func (r *rig) loaded() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	for _, g := range r.gateways {
		seed := r.rng.Uint64()
		running.Go(func() {
			sum, err := load.Run(ctx, load.Options{URL: g.url, Key: token, Models: []string{sim.Small, sim.Large}, Rate: rate, StreamShare: 0.5, MaxTokens: 12,
				Duration: time.Hour, Timeout: 20 * time.Second, Concurrency: 128, Seed: seed}, nil)
			if err != nil && ctx.Err() == nil {
				r.t.Error(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.requests += sum.Requests
			r.answered += sum.OK
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// behind is how many records of the attempts topic are not folded yet.
func (r *rig) behind(ctx context.Context) (int64, error) {
	var want, have int64
	for p := range partitions {
		_, next, err := r.client.Bounds(ctx, topic.Attempts, p)
		if err != nil {
			return 0, err
		}
		want += next
	}
	err := r.db.QueryRow(ctx, "SELECT toInt64(sum(kafka_offset + 1)) FROM folds FINAL WHERE kind = 'progress' AND generation = (SELECT max(generation) FROM fold_generations)").Scan(&have)
	return want - have, err
}

func (r *rig) eventually(within time.Duration, what string, ask func() error) {
	r.t.Helper()
	if err := until(within, ask); err != nil {
		r.t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}

func until(within time.Duration, ask func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
