// Package process supervises the engines that run beside a program: a log file for each, readiness,
// graceful and forced ends, and outages on demand.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// Process is a child process whose standard error goes to a log file.
type Process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // of Wait; read after done
}

// Start starts cmd, truncating the log. name is what errors call it. The child gets a session of its
// own, so that neither a terminal's signals nor those of its process group cross over, and on Linux it
// is killed when this process dies. Its standard input is what cmd says.
func Start(name, logPath string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	cmd.Stderr = log
	isolate(cmd)
	p := &Process{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so that thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the process gracefully, and by force when ctx ends first; then the error is that of ctx.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // these fail only if it has ended
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stopping %s: killed: %w", p.name, ctx.Err())
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// Pause stops the process with SIGSTOP: connections stay open and nothing answers.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing %s: %w", p.name, err)
	}
	for deadline := time.Now().Add(time.Second); !p.stopped() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // its threads stop one after the other
	}
	return nil
}

// stopped says whether every thread has stopped, and false where that cannot be seen.
func (p *Process) stopped() bool {
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

// Resume lets a paused process go on.
func (p *Process) Resume() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resuming %s: %w", p.name, err)
	}
	return nil
}

// Await polls ready until it says true, for at most 30 s. On an error the process is killed, and the
// error holds the end of its log.
func (p *Process) Await(ctx context.Context, ready func() (bool, error)) error {
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
			if p.err != nil {
				return p.failed(fmt.Errorf("it ended at once (%w)", p.err))
			}
			return p.failed(errors.New("it ended at once"))
		case <-ctx.Done():
			return p.failed(ctx.Err())
		case <-ticker.C:
		}
	}
}

func (p *Process) failed(cause error) error {
	p.Kill()
	text := strings.TrimSpace(p.Log())
	if text == "" {
		return fmt.Errorf("starting %s: %w", p.name, cause)
	}
	return fmt.Errorf("starting %s: %w; its log (%s) ends with:\n%s", p.name, cause, p.logPath, text)
}

// LogPath is the log file.
func (p *Process) LogPath() string { return p.logPath }

// Log returns the end of the log.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	if len(data) > logTail {
		data = data[len(data)-logTail:]
	}
	return strings.ToValidUTF8(string(data), "?")
}

// PortError says that a fixed port is taken.
type PortError struct {
	Listener string // such as "clickhouse http"
	Port     int
	Flag     string // the flag that sets it, such as --clickhouse.http, if known
}

func (e *PortError) Error() string {
	text := fmt.Sprintf("port %d (%s) is in use: stop what listens there", e.Port, e.Listener)
	if e.Flag != "" {
		text += " or choose another with " + e.Flag
	}
	return text
}

// CheckPort fails with a *PortError if a fixed port is taken. Port 0 is always free.
func CheckPort(listener string, port int, flag string) error {
	if port == 0 {
		return nil
	}
	l, err := net.Listen("tcp", Loopback(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return &PortError{Listener: listener, Port: port, Flag: flag}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", listener, err)
	}
	return l.Close()
}

// FreePort returns a port that was free a moment ago, for servers that must be told a number.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", Loopback(0))
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Loopback is a port's address on this machine.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// FreeAddress finds a loopback address that nobody listens on.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return Loopback(port), err
}
