package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 30 * time.Second
	readyPoll    = 5 * time.Millisecond
	logTail      = 2000 // bytes of the log shown in an error
)

// process is an engine that runs as a child. Its log goes to a file; the pipe at its standard input
// tells it that this process has ended, however it ended.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	alive   io.Closer // our end of its standard input
	done    chan struct{}
	err     error // of Wait; read after done
}

// spawn starts this program again as an engine.
func spawn(name, logPath string, args ...string) (*process, error) {
	if os.Getenv(childMark) != "" {
		return nil, fmt.Errorf("starting %s: this process was itself started as an engine but did not call local.EngineMain; tests call chtest.Main or kafkatest.Main in TestMain", name)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()

	cmd := exec.Command(executable, append([]string{"engine"}, args...)...)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stderr = log
	ownSession(cmd)
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, logPath: logPath, cmd: cmd, alive: alive, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id of the engine.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the engine's process has ended, for whatever reason.
func (p *process) Done() <-chan struct{} { return p.done }

// Stop ends the engine gracefully, and by force when ctx ends first; then the error is that of ctx.
// What it has acknowledged is on disk either way.
func (p *process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stopping %s: killed: %w", p.name, ctx.Err())
	}
}

// Kill ends the engine with SIGKILL and waits until it is gone.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pause stops the engine with SIGSTOP: connections stay open and nothing answers.
func (p *process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing %s: %w", p.name, err)
	}
	for deadline := time.Now().Add(time.Second); !p.stopped() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // its threads stop one after the other
	}
	return nil
}

// stopped says whether every thread has stopped, and false where that cannot be seen.
func (p *process) stopped() bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		// The state follows the name, which stands in parentheses and may hold any of them.
		if err == nil && !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " T") {
			return false
		}
	}
	return true
}

// Resume lets a paused engine go on.
func (p *process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// await polls ready until it says true. The error holds the end of the engine's log.
func (p *process) await(ctx context.Context, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		ok, err := ready()
		if err != nil {
			return p.failed(err)
		}
		if ok {
			return nil
		}
		select {
		case <-p.done:
			cause := errors.New("it ended at once")
			if p.err != nil {
				cause = fmt.Errorf("it ended at once (%w)", p.err)
			}
			return p.failed(cause)
		case <-ctx.Done():
			return p.failed(ctx.Err())
		case <-ticker.C:
		}
	}
}

func (p *process) failed(cause error) error {
	p.Kill()
	text := strings.TrimSpace(p.log())
	if text == "" {
		return fmt.Errorf("starting %s: %w", p.name, cause)
	}
	return fmt.Errorf("starting %s: %w; its log (%s) ends with:\n%s", p.name, cause, p.logPath, text)
}

// log returns the end of the engine's log.
func (p *process) log() string {
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	if len(data) > logTail {
		data = data[len(data)-logTail:]
	}
	return strings.ToValidUTF8(string(data), "?")
}

// free fails with a *PortError if a fixed port is taken. Port 0 is always free.
func free(listener string, port int, flag string) error {
	if port == 0 {
		return nil
	}
	l, err := net.Listen("tcp", loopback(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortError{Listener: listener, Port: port, Flag: flag}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", listener, err)
	}
	return l.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
