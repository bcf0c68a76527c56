package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"turnout/deploy/internal/process"
)

// Process is a running engine: Pid, Done, Stop, Kill, Pause and Resume. What it has acknowledged is on
// disk, however it ends.
type Process = process.Process

// PortError says that a fixed port is taken, and which flag sets it.
type PortError = process.PortError

// lockDir takes a data directory for one engine. Handed down to the engine, the lock lasts until both
// this process has closed it and the engine has ended.
func lockDir(name, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s data directory: %w", name, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s data directory: %w", name, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s data directory %s is in use by another process: stop it or use another directory", name, dir)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return lock, nil
}

// spawn starts this program again as an engine, which keeps the lock. The pipe at its standard input
// stays open until this process ends: that is how it learns of it where the kernel does not tell.
func spawn(name, logPath string, lock *os.File, args ...string) (*Process, error) {
	if os.Getenv(childMark) != "" {
		return nil, fmt.Errorf("starting %s: this process was itself started as an engine but did not call local.EngineMain; tests call chtest.Main or kafkatest.Main in TestMain", name)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	cmd := exec.Command(executable, append([]string{"engine"}, args...)...)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.ExtraFiles = []*os.File{lock}
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return process.Start(name, logPath, cmd)
}
