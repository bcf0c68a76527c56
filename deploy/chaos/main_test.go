package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnout/gateway"
	"turnout/internal/failpoint"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/processor"
)

// roleVariable makes this test binary be a gateway or a processor instead of running tests;
// trapVariable names the file in which it finds at which point to die.
const (
	roleVariable = "_TURNOUT_CHAOS_ROLE"
	trapVariable = "_TURNOUT_CHAOS_TRAP"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	testkit.Main(m)
}

func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go watchTrap(os.Getenv(trapVariable))
	env := lifecycle.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}
	run := gateway.Main
	if role == "processor" {
		run = processor.Main
	}
	err := run(ctx, env, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return lifecycle.Code(err)
}

// trap is where a process dies, or stands still until its parent has killed somebody else.
type trap struct {
	Point string
	Nth   int64  // passing of the point
	Hold  string // a file to make and to wait at until it is gone; empty: die
}

// watchTrap sets and clears the trap as the file says.
func watchTrap(path string) {
	var set atomic.Pointer[trap]
	var passed atomic.Int64
	failpoint.Set(func(name string) {
		t := set.Load()
		if t == nil || t.Point != name || passed.Add(1) != t.Nth {
			return
		}
		if t.Hold == "" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment, and nothing may happen in it
		}
		if os.WriteFile(t.Hold, nil, 0o600) != nil {
			return
		}
		for {
			if _, err := os.Stat(t.Hold); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	last := ""
	for {
		if data, err := os.ReadFile(path); err == nil && string(data) != last {
			last = string(data)
			t := new(trap)
			if json.Unmarshal(data, t) != nil || t.Point == "" {
				t = nil
			}
			passed.Store(0)
			set.Store(t)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
