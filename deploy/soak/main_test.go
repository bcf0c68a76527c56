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
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/gateway"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/processor"
)

// roleVariable makes this test binary be a gateway, whose memory is then its own, or a processor, which
// makes the snapshots that let the gateway forget its attempts.
const roleVariable = "_TURNOUT_SOAK_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		testkit.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go release()
	run := gateway.Main
	if role == "processor" {
		run = processor.Main
	}
	err := run(ctx, lifecycle.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(lifecycle.Code(err))
}

// release gives back what the runtime keeps for later use, at SIGUSR1. By itself it does so within some
// five minutes: it collects every two minutes, and pools are empty after the second time.
func release() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		runtime.GC()
		debug.FreeOSMemory()
	}
}

// node is the gateway under test.
type node struct {
	t          *testing.T
	cmd        *exec.Cmd
	proc       *process.Process
	url, admin string
}

// engines are what gateway and processor speak to.
type engines struct {
	kafka      kafkax.Config
	clickhouse chx.Config
}

func startEngines(t *testing.T) engines {
	t.Helper()
	e := engines{kafka: kafkatest.New(t, partitions), clickhouse: chtest.New(t)}
	if _, _, err := migrations.Up(t.Context(), e.clickhouse); err != nil {
		t.Fatal(err)
	}
	return e
}

// start starts this binary in a role and waits until it is ready.
func (e engines) start(t *testing.T, role, url string, args ...string) *node {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append(args, "--log.level", "error", "--kafka.brokers", strings.Join(e.kafka.Brokers, ","),
		"--clickhouse.addr", e.clickhouse.Addr[0], "--clickhouse.database", e.clickhouse.Database,
		"--clickhouse.username", e.clickhouse.Username, "--clickhouse.password", e.clickhouse.Password.Reveal())...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TURNOUT_") && !strings.HasPrefix(kv, "EXPLORATION_RATE=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, roleVariable+"="+role, "SOAK_SECRET=sk-soak-0000000000")
	n := &node{t: t, cmd: cmd, url: url, admin: url}
	if n.proc, err = process.Start(role, filepath.Join(t.TempDir(), role+".log"), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.proc.Kill()
		if t.Failed() {
			t.Logf("the %s's log:\n%s", role, n.proc.Log())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return n
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the %s is not ready: %v\n%s", role, err, n.proc.Log())
		}
	}
}

func (e engines) processor(t *testing.T) {
	t.Helper()
	listen := testkit.FreeAddress(t)
	e.start(t, "processor", "http://"+listen, "--processor.listen", listen)
}

func (e engines) gateway(t *testing.T, resources string) *node {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	if err := os.WriteFile(file, []byte(resources), 0o600); err != nil {
		t.Fatal(err)
	}
	listen, admin := testkit.FreeAddress(t), testkit.FreeAddress(t)
	n := e.start(t, "gateway", "http://"+listen, "--listen", listen, "--admin_listen", admin, "--resources", file, "--node_id", "soak",
		"--spool.dir", filepath.Join(dir, "spool"), "--spool.fsync", "never", "--hash_key", strings.Repeat("k", 32),
		"--shutdown_timeout", "5s", "--poll_interval", "2s")
	n.admin = "http://" + admin
	return n
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
	own                  int     // attempts that no snapshot holds yet
	rss, heap            float64 // MB
}

var figures = map[string]*regexp.Regexp{
	"goroutines": regexp.MustCompile(`(?m)^go_goroutines (\S+)$`),
	"rss":        regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`),
	"heap":       regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`),
	"own":        regexp.MustCompile(`(?m)^turnout_gateway_own_attempts (\S+)$`),
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
	return size{goroutines: int(figure("goroutines")), inFlight: int(figure("in flight")), own: int(figure("own")),
		rss: figure("rss") / 1e6, heap: figure("heap") / 1e6}
}

// rest waits until nothing runs, snapshots hold all attempts, the process has given back what it can and
// is no larger than limit allows, or a while has passed; it returns what is left.
func (n *node) rest(limit size, within time.Duration) size {
	n.t.Helper()
	for deadline := time.Now().Add(within); ; {
		if err := n.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			n.t.Fatal(err)
		}
		time.Sleep(time.Second)
		s := n.size()
		settled := s.inFlight == 0 && s.own == 0 && s.goroutines <= limit.goroutines && s.rss <= limit.rss
		if settled || time.Now().After(deadline) {
			return s
		}
	}
}
