package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/gateway"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/processor"
	"turnout/schemas/attempt"
)

// roleVariable makes this test binary be a gateway or a processor instead of running tests.
const roleVariable = "_TURNOUT_E2E_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		env := lifecycle.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}
		run := gateway.Main
		if role == "processor" {
			run = processor.Main
		}
		err := run(ctx, env, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(lifecycle.Code(err))
	}
	testkit.Main(m)
}

const (
	token     = "to-e2e-00000000000000000000000000000000"
	projectID = "e2e"
)

// system is everything but the gateways and processors, which tests start, kill and start again.
type system struct {
	t          *testing.T
	clickhouse chx.Config
	kafka      kafkax.Config
	sim        *sim.Server
	simURL     string
	dir        string
	resources  string
	extra      []string // settings of every process
}

type option struct {
	providers  []sim.Provider
	projects   []sim.Project
	clickhouse *chx.Config
	kafka      *kafkax.Config
}

func newSystem(t *testing.T, o option) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir()}
	if o.clickhouse != nil {
		s.clickhouse = *o.clickhouse
	} else {
		s.clickhouse = chtest.New(t)
	}
	if o.kafka != nil {
		s.kafka = *o.kafka
	} else {
		s.kafka = kafkatest.New(t, 3)
	}
	if _, _, err := migrations.Up(t.Context(), s.clickhouse); err != nil {
		t.Fatal(err)
	}
	server, err := sim.New(sim.Options{Seed: 1, Providers: o.providers})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Start(ln)
	t.Cleanup(func() { _ = server.Close() })
	s.sim, s.simURL = server, "http://"+ln.Addr().String()

	secret, err := sim.WriteKeys(filepath.Join(s.dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	if o.providers != nil {
		path := filepath.Join(s.dir, "keys", "any.key")
		if err := os.WriteFile(path, []byte("sk-any\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		secret = func(string) string { return "file:" + path }
	}
	projects := append([]sim.Project{{ID: projectID}}, o.projects...)
	for i := range projects {
		if projects[i].KeyHash == "" {
			sum := sha256.Sum256([]byte(token))
			projects[i].KeyHash = "sha256:" + hex.EncodeToString(sum[:])
		}
	}
	data, err := sim.Resources(sim.ResourceOptions{BaseURL: s.simURL, Providers: o.providers, Secret: secret, Projects: projects})
	if err != nil {
		t.Fatal(err)
	}
	s.resources = filepath.Join(s.dir, "resources.yaml")
	if err := os.WriteFile(s.resources, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// process is a gateway or a processor.
type process struct {
	t      *testing.T
	name   string
	args   []string
	role   string
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	url    string // of the gateway
	admin  string
}

func (s *system) gateway(name string, args ...string) *process {
	s.t.Helper()
	listen, admin := freePort(s.t), freePort(s.t)
	p := &process{t: s.t, name: name, role: "gateway", url: "http://" + listen, admin: "http://" + admin}
	p.args = append([]string{
		"--listen", listen, "--admin_listen", admin, "--resources", s.resources, "--node_id", name,
		"--spool.dir", filepath.Join(s.dir, "spool-"+name), "--spool.fsync", "never", "--poll_interval", "1s",
		"--hash_key", strings.Repeat("k", 32), "--shutdown_timeout", "3s", "--log.level", "warn",
	}, append(s.engineFlags(), args...)...)
	p.start()
	p.await()
	return p
}

func (s *system) processor(name string) *process {
	s.t.Helper()
	listen := freePort(s.t)
	p := &process{t: s.t, name: name, role: "processor", url: "http://" + listen}
	p.args = append([]string{"--processor.listen", listen, "--log.level", "warn"}, s.engineFlags()...)
	p.start()
	return p
}

func (s *system) engineFlags() []string {
	return append([]string{
		"--kafka.brokers", strings.Join(s.kafka.Brokers, ","), "--clickhouse.addr", s.clickhouse.Addr[0], "--clickhouse.database", s.clickhouse.Database,
		"--clickhouse.username", s.clickhouse.Username, "--clickhouse.password", s.clickhouse.Password.Reveal(),
	}, s.extra...)
}

func (p *process) start() {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.stderr = &bytes.Buffer{}
	p.cmd = exec.Command(self, p.args...)
	p.cmd.Env = append(os.Environ(), roleVariable+"="+p.role)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.t.Failed() && p.stderr.Len() > 0 {
			p.t.Logf("%s:\n%s", p.name, tail(p.stderr.String(), 4000))
		}
	})
}

// kill ends the process as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop ends it in order and fails the test if it takes longer than ten seconds or reports an error.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("stopping %s: %v\n%s", p.name, err, tail(p.stderr.String(), 4000))
	}
}

// restart kills and starts again, on the same addresses and folders.
func (p *process) restart() {
	p.t.Helper()
	p.kill()
	p.start()
	if p.role == "gateway" {
		p.await()
	}
}

func (p *process) await() {
	p.t.Helper()
	eventually(p.t, 20*time.Second, p.name+" is ready", func() error {
		resp, err := http.Get(p.url + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", resp.Status)
		}
		return nil
	})
}

// balance waits until every call of the ledger has its row and checks that nothing else claims one.
func (s *system) balance() []load.Row {
	s.t.Helper()
	var rows []load.Row
	eventually(s.t, 60*time.Second, "ledger and rows agree", func() error {
		var err error
		if rows, err = s.rows(); err != nil {
			return err
		}
		if found := load.Balance(s.sim.Ledger(0), rows); len(found) > 0 {
			return fmt.Errorf("%d mismatches, such as %v", len(found), found[:min(3, len(found))])
		}
		return nil
	})
	return rows
}

func (s *system) rows() ([]load.Row, error) {
	db, err := chx.Open(s.clickhouse)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	found, err := db.Query(context.Background(), "SELECT span_id, provider, outcome, status_code, output_tokens FROM attempts_unique")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []load.Row
	for found.Next() {
		var r load.Row
		var outcome string
		var status int32
		if err := found.Scan(&r.SpanID, &r.Provider, &outcome, &status, &r.OutputTokens); err != nil {
			return nil, err
		}
		r.Outcome, r.StatusCode = attempt.Outcome(outcome), int(status)
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// set changes how a simulated provider behaves.
func (s *system) set(provider, change string) {
	s.t.Helper()
	if err := s.sim.Set(provider, []byte(change)); err != nil {
		s.t.Fatal(err)
	}
}

// eventually asks until it gets no error.
func eventually(t *testing.T, within time.Duration, what string, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "..." + text[len(text)-n:]
}

// fast is the default providers without their waiting times.
func fast() []sim.Provider {
	providers := slices.Clone(sim.Default())
	for i := range providers {
		providers[i].Keys = nil
		providers[i].Behavior.TTFT, providers[i].Behavior.TokenRate = sim.Fixed(1), sim.Fixed(0)
	}
	return providers
}
