package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/deploy/internal/process"
	"turnout/internal/testkit"
)

// node is a gateway or a processor, a process of its own. It may be killed and started again, on the
// same addresses and folders.
type node struct {
	t     *testing.T
	name  string
	role  string
	args  []string
	dir   string // of its logs
	lives int
	cmd   *exec.Cmd
	proc  *process.Process
	url   string // of a gateway: what clients speak to
	admin string // where /metrics is
}

// start starts the process; it does not wait until that is ready.
func (n *node) start() {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.lives++
	n.cmd = exec.Command(self, n.args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "TURNOUT_") && !strings.HasPrefix(kv, "EXPLORATION_RATE=") {
			n.cmd.Env = append(n.cmd.Env, kv)
		}
	}
	n.cmd.Env = append(n.cmd.Env, roleVariable+"="+n.role)
	n.proc, err = process.Start(n.name, filepath.Join(n.dir, fmt.Sprintf("%s-%d.log", n.name, n.lives)), n.cmd)
	if err != nil {
		n.t.Fatal(err)
	}
	proc := n.proc
	n.t.Cleanup(func() {
		proc.Kill()
		if n.t.Failed() {
			n.t.Logf("log of %s:\n%s", n.name, proc.Log())
		}
	})
}

// kill ends the process as a crash would.
func (n *node) kill() { n.proc.Kill() }

// stop ends it in order, and fails the test if it takes longer than limit or reports an error.
func (n *node) stop(limit time.Duration) time.Duration {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	if err := n.proc.Stop(ctx); err != nil {
		n.t.Errorf("%v\n%s", err, n.proc.Log())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("%s ended with exit code %d:\n%s", n.name, code, n.proc.Log())
	}
	return time.Since(began)
}

// exits waits for a process that ends by itself and returns its exit code and log.
func (n *node) exits(within time.Duration) (int, string) {
	n.t.Helper()
	select {
	case <-n.proc.Done():
	case <-time.After(within):
		n.t.Fatalf("%s still runs after %s:\n%s", n.name, within, n.proc.Log())
	}
	return n.cmd.ProcessState.ExitCode(), n.proc.Log()
}

// await waits until the process says that it is ready.
func (n *node) await() {
	n.t.Helper()
	testkit.Eventually(n.t, 20*time.Second, n.name+" is ready", func() error {
		select {
		case <-n.proc.Done():
			n.t.Fatalf("%s ended:\n%s", n.name, n.proc.Log())
		default:
		}
		if status, body := n.readiness(); status != http.StatusOK {
			return fmt.Errorf("readyz: %d %s", status, body)
		}
		return nil
	})
}

// readiness asks /readyz; status 0 means that nobody answers.
func (n *node) readiness() (status int, body string) {
	resp, err := http.Get(n.url + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// metric reads one value without labels.
func (n *node) metric(name string) float64 {
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
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return v
		}
	}
	n.t.Fatalf("%s has no metric %s", n.name, name)
	return 0
}

// logs waits until the log holds all the texts in one line.
func (n *node) logs(within time.Duration, texts ...string) {
	n.t.Helper()
	testkit.Eventually(n.t, within, n.name+" logs "+strings.Join(texts, " and "), func() error {
		data, err := os.ReadFile(n.proc.LogPath())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if containsAll(line, texts) {
				return nil
			}
		}
		return fmt.Errorf("the log is\n%s", data)
	})
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
