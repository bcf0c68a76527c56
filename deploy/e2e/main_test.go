package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"turnout/gateway"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/processor"
)

// roleVariable makes this test binary be a gateway or a processor instead of running tests.
const roleVariable = "_TURNOUT_E2E_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	testkit.Main(m)
}

func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
