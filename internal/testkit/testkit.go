// Package testkit runs the tests of packages that need engines: see chtest and kafkatest.
package testkit

import (
	"os"
	"sync"
	"testing"

	"turnout/deploy/local"
)

var (
	mu     sync.Mutex
	atExit []func()
)

// AtExit has f called after the last test of the binary, last come first served.
func AtExit(f func()) {
	mu.Lock()
	defer mu.Unlock()
	atExit = append(atExit, f)
}

// Main is what TestMain does in a package whose tests use engines: it is the engine if this process
// was started as one, and runs the tests otherwise.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for those who have something to do afterwards; it returns the exit code.
func Run(m *testing.M) int {
	local.Dispatch()
	code := m.Run()
	mu.Lock()
	defer mu.Unlock()
	for i := len(atExit) - 1; i >= 0; i-- {
		atExit[i]()
	}
	atExit = nil
	return code
}
