package soak

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/gateway"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
)

// roleVariable makes this test binary be a gateway, whose memory is then its own.
const roleVariable = "_TURNOUT_SOAK_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		testkit.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := gateway.Main(ctx, lifecycle.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(lifecycle.Code(err))
}

// node is the gateway under test.
type node struct {
	t          *testing.T
	proc       *process.Process
	url, admin string
}

func startGateway(t *testing.T, resources string, kafka kafkax.Config) *node {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	if err := os.WriteFile(file, []byte(resources), 0o600); err != nil {
		t.Fatal(err)
	}
	address := func() string {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return process.Loopback(port)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	listen, admin := address(), address()
	cmd := exec.Command(self, "--listen", listen, "--admin_listen", admin, "--resources", file, "--node_id", "soak",
		"--spool.dir", filepath.Join(dir, "spool"), "--spool.fsync", "never", "--hash_key", strings.Repeat("k", 32),
		"--shutdown_timeout", "5s", "--log.level", "error", "--kafka.brokers", strings.Join(kafka.Brokers, ","), "--clickhouse.addr", "127.0.0.1:1")
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TURNOUT_") && !strings.HasPrefix(kv, "EXPLORATION_RATE=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, roleVariable+"=gateway", "SOAK_SECRET=sk-soak-0000000000")
	n := &node{t: t, url: "http://" + listen, admin: "http://" + admin}
	if n.proc, err = process.Start("gateway", filepath.Join(dir, "gateway.log"), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.proc.Kill()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", n.proc.Log())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(n.url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return n
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gateway is not ready: %v\n%s", err, n.proc.Log())
		}
	}
}

func (n *node) stop() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.proc.Stop(ctx); err != nil {
		n.t.Errorf("stopping the gateway: %v", err)
	}
}

// size is what a process holds.
type size struct {
	goroutines, inFlight int
	rss                  float64 // MB
}

var figures = map[string]*regexp.Regexp{
	"goroutines": regexp.MustCompile(`(?m)^go_goroutines (\S+)$`),
	"rss":        regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`),
	"in flight":  regexp.MustCompile(`(?m)^turnout_gateway_requests_in_flight (\S+)$`),
}

func (n *node) size() size {
	n.t.Helper()
	resp, err := http.Get(n.admin + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	figure := func(name string) float64 {
		m := figures[name].FindSubmatch(text)
		if m == nil {
			n.t.Fatalf("no figure for %s in the metrics", name)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			n.t.Fatal(err)
		}
		return v
	}
	return size{goroutines: int(figure("goroutines")), inFlight: int(figure("in flight")), rss: figure("rss") / 1e6}
}

// rest waits until nothing runs, and then until the process is no larger than limit allows, or a while
// has passed; it returns what is left.
func (n *node) rest(limit size, within time.Duration) size {
	n.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		s := n.size()
		settled := s.inFlight == 0 && s.goroutines <= limit.goroutines && s.rss <= limit.rss
		if settled || time.Now().After(deadline) {
			return s
		}
	}
}
