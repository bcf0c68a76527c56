package processor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/internal/failpoint"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
)

// childVariable makes the test binary a processor that is killed at a point: its value is an order.
const childVariable = "TURNOUT_PROCESSOR_TEST_CHILD"

type order struct {
	Brokers, Addr                []string
	Database, Username, Password string
	Group, Point                 string
	Times                        int  // how often the point is passed before
	Pause                        bool // stop there, to be continued, instead of dying
	Replay                       bool // instead of a processor
}

func child() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o); err != nil {
		panic(err)
	}
	go func() { // ends with its parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if o.Replay {
		failpoint.Set(o.pass())
		_ = ReplayMain(context.Background(), lifecycle.Env{Stdout: io.Discard, Stderr: os.Stderr, Args: []string{"--kafka.brokers", strings.Join(o.Brokers, ","), "--clickhouse.addr", o.Addr[0],
			"--clickhouse.database", o.Database, "--clickhouse.username", o.Username, "--clickhouse.password", o.Password}}, nil)
		return
	}
	cfg := DefaultConfig()
	cfg.Processor.Listen = "127.0.0.1:0"
	cfg.Kafka.Brokers, cfg.ClickHouse.Addr = o.Brokers, o.Addr
	cfg.ClickHouse.Database, cfg.ClickHouse.Username = o.Database, o.Username
	if err := json.Unmarshal([]byte(fmt.Sprintf("%q", o.Password)), &cfg.ClickHouse.Password); err != nil {
		panic(err)
	}
	p, err := New(cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), telemetry.NewMetrics())
	if err != nil {
		panic(err)
	}
	p.group, p.batchDelay, p.publishInterval = o.Group, 30*time.Millisecond, 100*time.Millisecond
	p.at = o.pass()
	_ = p.Run(context.Background())
}

// pass returns what is to be called at every point.
func (o order) pass() func(point string) {
	passed := 0
	return func(point string) {
		if point != o.Point {
			return
		}
		switch passed++; {
		case passed == o.Times+1 && o.Pause:
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case passed > o.Times && !o.Pause:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// child starts a processor in a process of its own, which ends with the test.
func (w *world) child(o order) (*exec.Cmd, *strings.Builder) {
	w.t.Helper()
	o.Brokers, o.Addr, o.Database, o.Username, o.Password = w.kafka.Brokers, w.ch.Addr, w.ch.Database, w.ch.Username, w.ch.Password.Reveal()
	text, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	stderr := new(strings.Builder)
	cmd.Stderr = stderr
	hold, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { hold.Close(); _ = cmd.Process.Kill() })
	return cmd, stderr
}

// killed runs a processor in a process of its own until it kills itself at the point.
func (w *world) killed(group, point string, times int, meanwhile func()) {
	w.t.Helper()
	w.dies(order{Group: group, Point: point, Times: times}, meanwhile)
}

// dies starts what is ordered in a process of its own and waits until that kills itself.
func (w *world) dies(o order, meanwhile func()) {
	w.t.Helper()
	point := o.Point
	cmd, stderr := w.child(o)
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case err := <-died:
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				w.t.Fatalf("the processor ended otherwise: %v\n%s", err, stderr.String())
			}
			return
		case <-timeout:
			_ = cmd.Process.Kill()
			w.t.Fatalf("the processor never came to %q\n%s", point, stderr.String())
		case <-time.After(20 * time.Millisecond):
			meanwhile()
		}
	}
}

// Each point is passed a few times before the kill, so that it falls into the middle of the work. What
// is written meanwhile holds copies of earlier events, as gateways send them again.
func TestKilledAtEveryPoint(t *testing.T) {
	w := newWorld(t, 3)
	rng := rand.New(rand.NewPCG(5, 6))
	distinct := int64(0)
	more := func() {
		events := w.writeEvents(rng, 60)
		distinct += int64(len(events))
		again := events[:rng.IntN(20)]
		for _, e := range again {
			w.write(record(e, true))
		}
	}
	more()
	round := 0
	for _, point := range []string{"raw stored", "dead letters written", "folds stored", "snapshot rows written"} {
		for _, times := range []int{0, 3} {
			round++
			w.killed(fmt.Sprintf("killed-%d", round), point, times, more)
		}
	}
	w.run(func(p *Processor) { p.group = "last" })
	w.caughtUp(20 * time.Second)
	if n := w.unique(); n != distinct {
		t.Errorf("%d rows for %d events", n, distinct)
	}
	w.verified()
	if _, err := w.readSnapshot(t.Context()); err != nil {
		t.Errorf("the newest head has not all its rows: %v", err)
	}
}

// A leader that dies leaves its duty to another within 15 seconds.
func TestSnapshotDutyMoves(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(23, 24))
	w.writeEvents(rng, 100)
	var successor *Processor
	var stop func()
	w.killed(group, "snapshot rows written", 40, func() {
		switch {
		case successor == nil && w.number("count() FROM snapshot_heads") >= 3: // it joins while the first one leads
			successor, stop = w.run()
		case successor != nil && successor.leads(): // the group gave it the duty with the partition: once more
			stop()
			successor = nil
		}
	})
	if successor == nil {
		w.run()
	}
	died := time.Now()
	before := w.number("count() FROM snapshot_heads")
	eventually(t, 15*time.Second, "another head", func() bool { return w.number("count() FROM snapshot_heads") > before })
	t.Logf("the next head came after %s", time.Since(died).Round(time.Millisecond))
	if _, err := w.readSnapshot(t.Context()); err != nil {
		t.Error(err)
	}
}

// A processor that was asleep wakes up in the middle of a batch, long after its partitions have moved
// on, and writes what it had in hand.
func TestAZombieDoesNoHarm(t *testing.T) {
	w := newWorld(t, 2)
	rng := rand.New(rand.NewPCG(33, 34))
	total := int64(len(w.writeEvents(rng, 200)))
	zombie, stderr := w.child(order{Group: group, Point: "dead letters written", Pause: true})
	eventually(t, 15*time.Second, "it sleeps between raw rows and buckets", func() bool {
		return w.number("count() FROM attempts") > 0 && state(zombie.Process.Pid) == "T"
	})
	if n := w.number("count() FROM folds"); n != 0 {
		t.Fatalf("%d buckets are there already", n)
	}
	p, _ := w.run()
	eventually(t, 25*time.Second, "the partitions have moved", func() bool { return len(p.status.Partitions()) == 2 })
	total += int64(len(w.writeEvents(rng, 300)))
	w.caughtUp(20 * time.Second)
	w.verified()

	before := w.number("sum(rows) FROM system.parts WHERE database = currentDatabase() AND table = 'folds'")
	if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "the zombie has written", func() bool {
		return w.number("sum(rows) FROM system.parts WHERE database = currentDatabase() AND table = 'folds'") > before
	})
	total += int64(len(w.writeEvents(rng, 100)))
	w.caughtUp(20 * time.Second)
	if n := w.unique(); n != total {
		t.Errorf("%d rows for %d events\n%s", n, total, stderr)
	}
	w.verified()
}

// state is the state of a process as /proc says it: T is stopped.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}
