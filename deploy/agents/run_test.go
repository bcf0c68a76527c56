//go:build agents

package agents

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnout/deploy/internal/process"
)

// The task: a sum that is a difference, and a test that says so and leaves its outcome in a file.
const (
	sumFile     = "sum.sh"
	testFile    = "test.sh"
	outcomeFile = "outcome.txt"

	wrongSum = "sum() { echo $(($1 - $2)); }"
	rightSum = "sum() { echo $(($1 + $2)); }"
	testText = ". ./sum.sh\nif [ \"$(sum 2 3)\" = 5 ]; then echo passed; else echo failed; fi | tee outcome.txt\n"
	runTest  = "sh test.sh"

	prompt    = mainTask + ": sum.sh is wrong. Read it and test.sh, mend it, and run the test."
	subPrompt = subTask + ": say whether the sum is right."
	lastWord  = "The sum is right now; the test passed."
	subWord   = "As far as I can tell, it is."
)

// agentTimeout bounds a run; an agent that hangs is killed.
const agentTimeout = 90 * time.Second

// agent is how one is run. what it writes into home and work is there before it starts.
type agent struct {
	name   string
	client string // by which rows tell it
	bin    string // below node_modules
	model  string
	setup  func(run *run) (args []string, environ []string)
	script func(work string) []batch
	// ownSubSession: its sub-agents have sessions of their own; others' are in the session of who asked them.
	ownSubSession bool
}

type batch = []toolCall

// run is one run of an agent.
type run struct {
	t          *testing.T
	agent      *agent
	gateway    *gateway
	home, work string
	exit       *exit
}

func newRun(t *testing.T, a *agent, g *gateway) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{t: t, agent: a, gateway: g, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work"), exit: newExit(t)}
	r.put(filepath.Join(r.work, sumFile), wrongSum+"\n")
	r.put(filepath.Join(r.work, testFile), testText)
	r.put(filepath.Join(r.home, ".keep"), "")
	return r
}

func (r *run) put(file, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// play runs the agent and checks that it did the task, by its effects.
func (r *run) play() {
	t := r.t
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("node_modules", r.agent.bin))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("%s is missing: run make agents, or npm ci in deploy/agents (%v)", r.agent.name, err)
	}
	args, environ := r.agent.setup(r)
	cmd := exec.Command(bin, args...)
	cmd.Dir = r.work
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "LANG=C.UTF-8", "TERM=dumb", "CI=true", "DO_NOT_TRACK=1", "SHELL=/bin/sh",
		"HTTP_PROXY=" + r.exit.url, "HTTPS_PROXY=" + r.exit.url, "ALL_PROXY=" + r.exit.url, "NO_PROXY=127.0.0.1,localhost",
		"http_proxy=" + r.exit.url, "https_proxy=" + r.exit.url, "all_proxy=" + r.exit.url, "no_proxy=127.0.0.1,localhost",
	}, environ...)
	out, err := os.Create(filepath.Join(filepath.Dir(r.work), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	p, err := process.Start(r.agent.name, filepath.Join(filepath.Dir(r.work), "stderr"), cmd)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(agentTimeout):
		t.Errorf("%s still runs after %s", r.agent.name, agentTimeout)
		p.Kill()
	}
	// What it started and left behind is in the session that was made for it.
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("what %s left behind: %v", r.agent.name, err)
	}
	said, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s ended with %d", r.agent.name, code)
	}
	r.holds(sumFile, rightSum)
	r.holds(outcomeFile, "passed")
	if !strings.Contains(string(said), lastWord) {
		t.Errorf("%s does not end with what the model said last", r.agent.name)
	}
	for _, host := range r.exit.asked() {
		t.Errorf("%s called out to %s", r.agent.name, host)
	}
	if t.Failed() {
		t.Logf("stdout of %s:\n%s\nstderr:\n%s", r.agent.name, said, p.Log())
	}
}

func (r *run) holds(file, want string) {
	r.t.Helper()
	got, err := os.ReadFile(filepath.Join(r.work, file))
	if err != nil || strings.TrimSpace(string(got)) != want {
		r.t.Errorf("%s holds %q, want %q (%v)", file, got, want, err)
	}
}

// exit is a proxy that lets nobody out and notes who tried.
type exit struct {
	url   string
	mu    sync.Mutex
	hosts []string
}

func newExit(t *testing.T) *exit {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &exit{url: "http://" + ln.Addr().String()}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.hosts = append(e.hosts, fmt.Sprintf("%s %s", r.Method, r.URL))
		e.mu.Unlock()
		http.Error(w, "there is no way out", http.StatusForbidden)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return e
}

func (e *exit) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.hosts...)
}
