package local

import (
	"fmt"
	"os"
	"os/exec"

	"turnout/deploy/internal/process"
)

// Process is a running engine: Pid, Done, Stop, Kill, Pause and Resume. What it has acknowledged is on
// disk, however it ends.
type Process = process.Process

// PortError says that a fixed port is taken, and which flag sets it.
type PortError = process.PortError

// spawn starts this program again as an engine. The pipe at its standard input stays open until this
// process ends: that is how it learns of it where the kernel does not tell.
func spawn(name, logPath string, args ...string) (*Process, error) {
	if os.Getenv(childMark) != "" {
		return nil, fmt.Errorf("starting %s: this process was itself started as an engine but did not call local.EngineMain; tests call chtest.Main or kafkatest.Main in TestMain", name)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	cmd := exec.Command(executable, append([]string{"engine"}, args...)...)
	cmd.Env = append(os.Environ(), childMark+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return process.Start(name, logPath, cmd)
}
