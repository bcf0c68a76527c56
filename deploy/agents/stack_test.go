//go:build agents

package agents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
)

const (
	token   = "to-agents-0000000000000000000000000000"
	binary  = "../../bin/turnout"
	project = "agents"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stack is what all gateways share.
type stack struct {
	kafka kafkax.Config
	ch    chx.Config
	db    *chx.Conn
}

func newStack(t *testing.T) *stack {
	t.Helper()
	if _, err := os.Stat(binary); err != nil {
		t.Fatal("bin/turnout is missing: run make agents, or make build")
	}
	s := &stack{kafka: kafkatest.New(t, 3), ch: chtest.New(t)}
	if _, _, err := migrations.Up(t.Context(), s.ch); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.db, err = chx.Open(s.ch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	listen := testkit.FreeAddress(t)
	s.start(t, "processor", listen, "--processor.listen", listen)
	return s
}

// start starts the program in a role and waits until it is ready.
func (s *stack) start(t *testing.T, role, listen string, args ...string) {
	t.Helper()
	cmd := exec.Command(binary, append(append([]string{role}, args...), "--log.level", "warn", "--kafka.brokers", strings.Join(s.kafka.Brokers, ","),
		"--clickhouse.addr", s.ch.Addr[0], "--clickhouse.database", s.ch.Database,
		"--clickhouse.username", s.ch.Username, "--clickhouse.password", s.ch.Password.Reveal())...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MODEL_KEY=sk-simulated-0000"}
	p, err := process.Start(role, filepath.Join(t.TempDir(), role+".log"), cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the %s:\n%s", role, p.Log())
		}
	})
	testkit.Eventually(t, 30*time.Second, role+" is ready", func() error {
		resp, err := http.Get("http://" + listen + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
}

// gateway is the gateway of one run, with two providers of one protocol that serve every model.
type gateway struct {
	t     *testing.T
	url   string
	file  string
	model *model
}

var models = []string{"gpt-5.5", "gpt-5.6-sol", "m", "small"}

// providers in the order of their price until the first call of a run.
var providers = []string{"cheap", "dear"}

// gateway starts a gateway by the name of the run, which is the node_id of its rows.
func (s *stack) gateway(t *testing.T, name string, m *model) *gateway {
	t.Helper()
	dir := t.TempDir()
	listen := testkit.FreeAddress(t)
	g := &gateway{t: t, url: "http://" + listen, file: filepath.Join(dir, "resources.yaml"), model: m}
	g.write(map[string]int{"cheap": 1, "dear": 5})
	s.start(t, "gateway", listen, "--listen", listen, "--admin_listen", testkit.FreeAddress(t), "--resources", g.file, "--node_id", name,
		"--spool.dir", filepath.Join(dir, "spool"), "--spool.fsync", "never", "--poll_interval", "1s", "--hash_key", strings.Repeat("k", 32), "--shutdown_timeout", "5s")
	return g
}

// write writes the resources; input tokens cost what price says, in USD per million.
func (g *gateway) write(price map[string]int) {
	d := g.model.dialect
	var b strings.Builder
	for _, p := range providers {
		fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: %s\nbase_url: %s/%s%s\nallow_private: true\ntrace: true\ncredentials: [{id: main, secret: env:MODEL_KEY}]\n", p, d.protocol, g.model.url, p, d.base)
		if d.endpoints != "" {
			fmt.Fprintf(&b, "endpoints: %s\n", d.endpoints)
		}
		b.WriteString("---\n")
	}
	for _, id := range models {
		fmt.Fprintf(&b, "kind: model\nid: %s\noutput: [text]\nmappings:\n", id)
		for _, p := range providers {
			fmt.Fprintf(&b, "  - {provider: %s, upstream: up-%s, price: {input: %d, output: %d}, context: 1000000, max_output: 64000, capabilities: [vision, tools, tool_choice, json_object, json_schema, reasoning]}\n",
				p, id, price[p], 2*price[p])
		}
		b.WriteString("---\n")
	}
	sum := sha256.Sum256([]byte(token))
	fmt.Fprintf(&b, "kind: organization\nid: local\nworkload: coding\n---\nkind: project\nid: %s\norganization: local\nmode: platform\nrouting: {thresholds: {exploration_rate: 0}, sticky: {enabled: false}}\n", project)
	fmt.Fprintf(&b, "---\nkind: api_key\nid: key\nproject: %s\nhash: sha256:%s\n", project, hex.EncodeToString(sum[:]))
	temp := g.file + ".new"
	if err := os.WriteFile(temp, []byte(b.String()), 0o600); err != nil {
		g.t.Error(err)
	}
	if err := os.Rename(temp, g.file); err != nil {
		g.t.Error(err)
	}
}

// reprice makes the provider that was called first the dear one, and waits until that counts: from here
// on only the session speaks for it. It runs while that first call waits for its answer.
func (g *gateway) reprice(first string) {
	price := map[string]int{"cheap": 2, "dear": 2}
	price[first] = 20
	g.write(price)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got, err := g.price(first)
		if err == nil && got == "20" {
			return
		}
		if time.Now().After(deadline) {
			g.t.Errorf("the new price of %s does not count: %s, %v", first, got, err)
			return
		}
	}
}

// price asks the catalogue what input of a provider's costs.
func (g *gateway) price(provider string) (string, error) {
	status, body, err := g.ask(http.MethodGet, "/v1/models/m", nil)
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("status %d: %w", status, err)
	}
	var m struct {
		Providers []struct {
			Provider string
			Pricing  struct{ Input string }
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", err
	}
	for _, p := range m.Providers {
		if p.Provider == provider {
			return p.Pricing.Input, nil
		}
	}
	return "", nil
}

func (g *gateway) ask(method, path string, body any) (status int, answer []byte, err error) {
	var send bytes.Buffer
	if body != nil {
		send.WriteString(compact(body))
	}
	req, err := http.NewRequest(method, g.url+path, &send)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}
