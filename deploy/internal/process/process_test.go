package process_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/deploy/internal/process"
)

func start(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start("thing", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestStopIsGracefulAndThenForced(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	polite := start(t, "trap 'echo bye >&2; exit 0' TERM; echo up >&2; while :; do sleep 0.01; done")
	if err := polite.Await(t.Context(), func() (bool, error) { return strings.Contains(polite.Log(), "up"), nil }); err != nil {
		t.Fatal(err)
	}
	if err := polite.Stop(t.Context()); err != nil || !strings.Contains(polite.Log(), "bye") {
		t.Errorf("%v, log %q", err, polite.Log())
	}
	if err := polite.Stop(t.Context()); err != nil {
		t.Errorf("stopping again: %v", err)
	}

	deaf := start(t, "trap '' TERM; echo up >&2; while :; do sleep 0.01; done")
	if err := deaf.Await(t.Context(), func() (bool, error) { return strings.Contains(deaf.Log(), "up"), nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := deaf.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	select {
	case <-deaf.Done():
	default:
		t.Error("it is still there")
	}
}

func TestFailuresShowTheLog(t *testing.T) {
	never := func() (bool, error) { return false, nil }
	err := start(t, "echo no such thing >&2; exit 3").Await(t.Context(), never)
	if err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p := start(t, "sleep 100")
	if err := p.Await(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-p.Done()
	if _, err := process.Start("thing", filepath.Join(t.TempDir(), "log"), exec.Command("/nowhere")); err == nil {
		t.Error("a missing program starts")
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", process.Loopback(0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	var taken *process.PortError
	if err := process.CheckPort("thing", port, ""); !errors.As(err, &taken) || taken.Port != port || strings.Contains(err.Error(), "--") {
		t.Errorf("got %v", err)
	}
	free, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.CheckPort("thing", free, ""); err != nil {
		t.Error(err)
	}
}
