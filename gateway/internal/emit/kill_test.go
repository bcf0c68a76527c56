package emit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// A child is a gateway's event log under load, which dies by SIGKILL: at the n-th passing of a named
// point, or when its parent says so.
const childVariable = "TURNOUT_TEST_EMIT_CHILD" // root|brokers|ledger|point|n

func child() {
	args := strings.Split(os.Getenv(childVariable), "|")
	root, brokers, ledgerPath, point := args[0], args[1], args[2], args[3]
	n, _ := strconv.ParseInt(args[4], 10, 64)
	var passed atomic.Int64
	atPoint = func(name string) {
		if name == point && passed.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment, and nothing may happen in it
		}
	}
	die := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	ledger, err := os.OpenFile(ledgerPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	die(err)
	kafka := kafkax.Default()
	kafka.Brokers = strings.Split(brokers, ",")
	client, err := kafkax.Open(kafka, quiet)
	die(err)
	cfg := Default()
	cfg.Dir, cfg.Fsync, cfg.MaxBytes = root, FsyncNever, 64*minMaxBytes
	l, err := Open(cfg, client, quiet, telemetry.NewMetrics())
	die(err)
	l.spool.mu.Lock()
	l.spool.cfg.MaxBytes = minMaxBytes // small segments, so that they rotate
	l.spool.mu.Unlock()
	note := func(what string, e *attempt.Event) {
		_, err := fmt.Fprintf(ledger, "%s %s\n", what, e.EventID)
		die(err)
	}
	for range 6 {
		go func() {
			for {
				e := event(rand.IntN(8))
				ticket, err := l.Start(e)
				if err != nil {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				note("start", e) // the call left
				if rand.IntN(40) == 0 {
					continue // and hangs
				}
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
				l.Finish(ticket, ended(e))
				note("end", e)
			}
		}()
	}
	time.Sleep(time.Minute) // the parent kills us before
	os.Exit(4)
}

type gateway struct {
	*exec.Cmd
	point string
}

func spawn(t *testing.T, root, ledger string, kafka kafkax.Config, point string, n int) *gateway {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{root, strings.Join(kafka.Brokers, ","), ledger, point, strconv.Itoa(n)}, "|"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &gateway{Cmd: cmd, point: point}
}

// killed waits for the child's death, bringing it about where no point does.
func (g *gateway) killed(t *testing.T) {
	t.Helper()
	if g.point == "random" {
		time.Sleep(time.Duration(200+rand.IntN(600)) * time.Millisecond)
		_ = g.Process.Signal(syscall.SIGKILL)
	}
	timer := time.AfterFunc(30*time.Second, func() { _ = g.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	_ = g.Wait()
	if status := g.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child for point %q ended with %v", g.point, g.ProcessState)
	}
}

// everything reads what is in the attempts topic, in log order within each partition.
func everything(t *testing.T, cfg kafkax.Config) []kafkax.Record {
	t.Helper()
	client, err := kafkax.Open(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	partitions, err := client.Partitions(ctx, topic.Attempts)
	if err != nil {
		t.Fatal(err)
	}
	var all []kafkax.Record
	for p := range partitions {
		first, next, err := client.Bounds(ctx, topic.Attempts, p)
		if err != nil {
			t.Fatal(err)
		}
		fetcher := client.NewFetcher(topic.Attempts, p, first)
		for at := first; at < next; {
			records, err := fetcher.Fetch(ctx, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) > 0 {
				at = records[len(records)-1].Offset + 1
			}
			all = append(all, records...)
		}
		fetcher.Close()
	}
	return all
}

func TestKilledAnywhereEveryCallHasItsRow(t *testing.T) {
	kafka := kafkatest.New(t, 3)
	root, ledger := filepath.Join(t.TempDir(), "spool"), filepath.Join(t.TempDir(), "ledger")
	for i, g := range []struct {
		point string
		n     int
	}{
		{"start", 200}, {"end", 300}, {"rotate", 4}, {"ack", 5}, {"acked", 6}, {"random", 0}, {"start", 1}, {"end", 1}, {"ack", 1}, {"random", 0},
	} {
		one := spawn(t, root, ledger, kafka, g.point, g.n)
		var other *gateway
		if i%2 == 0 { // two gateways share the place, and adopt
			other = spawn(t, root, ledger, kafka, "random", 0)
		}
		one.killed(t)
		if other != nil {
			other.killed(t)
		}
	}

	client, err := kafkax.Open(kafka, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	report, err := ShipDir(ctx, root, client, quiet, telemetry.NewMetrics())
	if err != nil || report.Locked != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	records := everything(t, kafka)
	events := settle(t, records)
	started, finished := readLedger(t, ledger)
	interrupted := 0
	for id := range started {
		e := events[id]
		if e == nil {
			t.Fatalf("the call %s left and has no row", id)
		}
		if finished[id] && e.Outcome != attempt.Completed {
			t.Fatalf("%s was finished and is %s", id, e.Outcome)
		}
	}
	for id, e := range events {
		if e.Outcome == attempt.Interrupted {
			interrupted++
		} else if !started[id] {
			t.Fatalf("%s is %s and never started", id, e.Outcome)
		}
	}
	t.Logf("%d calls, %d finished, %d interrupted, %d records in Kafka, last report %+v", len(started), len(finished), interrupted, len(records), report)
	if len(started) < 500 || interrupted < 10 {
		t.Errorf("too little happened to show anything")
	}
}

func readLedger(t *testing.T, path string) (started, finished map[string]bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	started, finished = map[string]bool{}, map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		what, id, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "start":
			started[id] = true
		case "end":
			finished[id] = true
		}
	}
	return started, finished
}

func TestTwoAdoptersShareTheWork(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	want := 0
	for range 6 {
		l := openLog(t, cfg, b)
		for range 50 {
			e := event(2)
			ticket := mustStart(t, l, e)
			if want++; want%5 > 0 {
				l.Finish(ticket, ended(e))
			}
		}
		l.stop() // before it is closed, so that none adopts another's
		_ = l.Close(expired())
	}
	b.set(func() { b.down = false })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			l := openLog(t, cfg, b)
			eventually(t, "all adopted", func() bool { return len(b.records()) >= want })
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// One that was closed while it shipped leaves the directory, sent or not, to the next.
	shipAll(t, cfg.Dir, b)
	if events := settle(t, b.records()); len(events) != want {
		t.Errorf("%d events, want %d", len(events), want)
	}
	eventually(t, "nothing left", func() bool { left, _ := os.ReadDir(cfg.Dir); return len(left) == 0 })
}

func TestCorruptedSegmentsAreCountedAndTheRestIsShipped(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	for range 20 {
		e := event(2)
		l.Finish(mustStart(t, l, e), ended(e))
	}
	_ = l.Close(expired())
	b.set(func() { b.down = false })
	files, _ := segmentsOf(t, cfg.Dir)
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	frames, _ := scan(t, data)
	for _, f := range []frame{frames[3], frames[8]} { // an end, whose start remains, and a start
		data[f.offset+f.size/2] ^= 1
	}
	cut := frames[39].offset + 30 // the last end is torn, its start remains
	if err := os.WriteFile(files[0], data[:cut], 0o600); err != nil {
		t.Fatal(err)
	}
	r := shipAll(t, cfg.Dir, b)
	if r.Sent != 18 || r.Interrupted != 2 || r.TornBytes != frames[3].size+frames[8].size+30 {
		t.Fatalf("%+v", r)
	}
	settle(t, b.records())
}

func TestShipDirLeavesTheLivingAlone(t *testing.T) {
	b, cfg := &broker{}, config(t)
	l := openLog(t, cfg, b)
	mustStart(t, l, event(0))
	if r := shipAll(t, cfg.Dir, b); r.Locked != 1 || r.Directories != 0 {
		t.Errorf("%+v", r)
	}
	foreign := filepath.Join(cfg.Dir, "somebody-elses")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	shipAll(t, cfg.Dir, b)
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a foreign directory is gone")
	}
}

func TestWhatKafkaHasIsNotSentAgain(t *testing.T) {
	b, cfg := &broker{}, config(t)
	l := openLog(t, cfg, b)
	mustStart(t, l, event(1))
	for range 10 {
		e := event(0)
		l.Finish(mustStart(t, l, e), ended(e))
	}
	eventually(t, "acknowledged", func() bool { return l.Depth() == 0 })
	b.set(func() { b.down = true })
	for range 6 {
		e := event(0)
		l.Finish(mustStart(t, l, e), ended(e))
	}
	_ = l.Close(expired())

	// The first adopter dies after two rounds, of two and of four.
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	b.set(func() {
		b.down = false
		b.answers = func(record int) answer {
			if record == 0 {
				if calls++; calls > 2 {
					cancel()
				}
			}
			if calls > 2 {
				return refuses
			}
			return takes
		}
	})
	s := newSender(b, b, quiet, newMetrics(telemetry.NewMetrics()))
	s.limit = 2
	report, err := shipDir(ctx, cfg.Dir, s)
	if err == nil || report.Sent+report.Interrupted != 6 {
		t.Fatalf("the first adopter: %+v, %v", report, err)
	}
	b.set(func() { b.answers = nil })
	if r := shipAll(t, cfg.Dir, b); r.Sent+r.Interrupted != 1 {
		t.Fatalf("the second adopter: %+v", r)
	}
	if n := len(b.records()); n != 17 {
		t.Errorf("%d records of 17 attempts", n)
	}
}
