package emit

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func TestEndsReachKafkaOnceAndTheDirectoryGoes(t *testing.T) {
	b, cfg := &broker{}, config(t)
	l := openLog(t, cfg, b)
	var acked atomic.Int64
	l.OnAck(func(_ int, offset int64, e *attempt.Event) {
		if e.Outcome != attempt.Completed || offset < 0 {
			t.Errorf("acknowledged %s at %d", e.Outcome, offset)
		}
		acked.Add(1)
	})
	const n = 2500
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for i := range n / 5 {
				e := event(i % 11)
				l.Finish(mustStart(t, l, e), ended(e))
			}
		})
	}
	wg.Wait()
	l.Refuse(&attempt.Refused{SchemaVersion: 1, EventID: "e-1", RequestID: "r-1", NodeID: "gw-1", ProjectID: "prj_9", Endpoint: "chat", At: time.Now(), StatusCode: 400, ErrorCode: "x"})
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	records := b.records()
	var attempts []kafkax.Record
	for _, r := range records {
		if header(r, topic.HeaderReplayed) != "" {
			t.Fatal("marked without having been sent before")
		}
		if header(r, topic.HeaderType) == topic.TypeRequestRefused {
			if header(r, topic.HeaderSubject) != "prj_9" || string(r.Key) != "r-1" {
				t.Errorf("refusal: %+v", r)
			}
			continue
		}
		attempts = append(attempts, r)
	}
	if len(records) != n+1 || len(settle(t, attempts)) != n || acked.Load() != n {
		t.Fatalf("%d records, %d events acknowledged", len(records), acked.Load())
	}
	for key, want := range map[string]string{
		topic.HeaderSpecVersion: "1.0", topic.HeaderSource: "/gateway/gw-1", topic.HeaderType: topic.TypeAttemptFinished, topic.HeaderSubject: "prj_1",
		topic.HeaderContentType: "application/json", topic.HeaderTraceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		if got := header(attempts[0], key); got != want {
			t.Errorf("header %s is %q, want %q", key, got, want)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, header(attempts[0], topic.HeaderTime)); err != nil || !at.Truncate(time.Millisecond).Equal(attempts[0].Time.Truncate(time.Millisecond)) {
		t.Errorf("ce_time %v, %v; record %v", at, err, attempts[0].Time)
	}
	if left, _ := os.ReadDir(cfg.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestASentAgainRecordIsMarked(t *testing.T) {
	b := &broker{lose: true}
	l := openLog(t, config(t), b)
	e := event(3)
	l.Finish(mustStart(t, l, e), ended(e))
	eventually(t, "the first try", func() bool { return len(b.records()) > 0 })
	b.set(func() { b.lose = false })
	eventually(t, "an acknowledgement", func() bool { return l.Depth() == 0 })
	records := b.records()
	if len(records) < 2 || header(records[0], topic.HeaderReplayed) != "" || header(records[1], topic.HeaderReplayed) != "1" {
		t.Fatalf("%d records, the first marked %q", len(records), header(records[0], topic.HeaderReplayed))
	}
	settle(t, records)
}

func TestWhatADeadProcessLeft(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	open1, open2, done := event(10), event(0), event(2)
	mustStart(t, l, open1)
	mustStart(t, l, open2)
	l.Finish(mustStart(t, l, done), ended(done))
	if err := l.Close(expired()); err == nil || !strings.Contains(err.Error(), "3 attempts wait in") {
		t.Fatalf("Close says %v", err)
	}
	b.set(func() { b.down = false })

	next := openLog(t, cfg, b)
	eventually(t, "three records", func() bool { return len(b.records()) == 3 })
	eventually(t, "the dead one's directory gone", func() bool { dirs, _ := os.ReadDir(cfg.Dir); return len(dirs) == 1 })
	if next.Depth() != 0 || next.spool.adopted.Load() != 0 {
		t.Errorf("depth %d, %d bytes counted", next.Depth(), next.spool.adopted.Load())
	}
	events := settle(t, b.records())
	for _, r := range b.records() {
		if header(r, topic.HeaderReplayed) != "1" {
			t.Error("a record from an adopted directory is not marked")
		}
	}
	if e := events[done.EventID]; e == nil || e.Outcome != attempt.Completed || e.CostNanoUSD != 309_000 {
		t.Errorf("the finished one: %+v", e)
	}
	e := events[open1.EventID]
	if e == nil || e.Outcome != attempt.Interrupted || e.RequestID != open1.RequestID || e.SpanID != open1.SpanID || len(e.Considered) != 10 ||
		!e.StartedAt.Equal(open1.StartedAt.Truncate(time.Microsecond)) || e.FinishedAt.Before(e.StartedAt) || e.UsageSource != attempt.UsageMissing {
		t.Errorf("the interrupted one: %+v", e)
	}
}

func TestFullSpoolRefusesStartsNeverEnds(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	cfg.MaxBytes = minMaxBytes
	l := openLog(t, cfg, b)
	var open []Ticket
	var events []*attempt.Event
	finished := 0
	for i := 0; ; i++ {
		e := event(10)
		ticket, err := l.Start(e)
		if err != nil {
			if !errors.Is(err, ErrSpoolFull) {
				t.Fatal(err)
			}
			break
		}
		if i%4 == 0 {
			open, events = append(open, ticket), append(events, e)
			continue
		}
		l.Finish(ticket, ended(e))
		finished++
	}
	if finished < 20 {
		t.Fatalf("full after %d", finished)
	}
	if l.Ready() == nil {
		t.Error("ready with a full spool")
	}
	for range 500 { // they have no room set aside and push nobody out
		l.Refuse(&attempt.Refused{SchemaVersion: 1, EventID: "e", RequestID: "r", ErrorMessage: strings.Repeat("m", 200), At: time.Now()})
	}
	refusals := l.Depth() - finished
	if refusals == 500 {
		t.Error("a full spool took every refusal")
	}
	for i, ticket := range open {
		l.Finish(ticket, ended(events[i]))
		finished++
	}
	if _, bytes := segmentsOf(t, cfg.Dir); bytes > cfg.MaxBytes {
		t.Errorf("%d bytes on the disk, at most %d wanted", bytes, cfg.MaxBytes)
	}
	if err := l.spool.broken; err != nil || l.Depth() != finished+refusals {
		t.Errorf("broken %v, depth %d, want %d", err, l.Depth(), finished+refusals)
	}
	b.set(func() { b.down = false })
	eventually(t, "drained", func() bool { return l.Depth() == 0 })
	if err := l.Ready(); err != nil {
		t.Error(err)
	}
	attempts := slices.DeleteFunc(b.records(), func(r kafkax.Record) bool { return header(r, topic.HeaderType) == topic.TypeRequestRefused })
	if got := len(settle(t, attempts)); got != finished || len(b.records())-len(attempts) != refusals {
		t.Errorf("%d events, want %d", got, finished)
	}
	e := event(1)
	l.Finish(mustStart(t, l, e), ended(e))
}

func TestFullSpoolDropsTheOldest(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	cfg.MaxBytes, cfg.WhenFull = minMaxBytes, WhenFullDropOldest
	l := openLog(t, cfg, b)
	stays := event(4) // open all the time: copied from segment to segment
	ticket := mustStart(t, l, stays)
	const n = 600
	var last *attempt.Event
	for range n {
		last = event(10)
		l.Finish(mustStart(t, l, last), ended(last))
	}
	l.Finish(ticket, ended(stays))
	if _, bytes := segmentsOf(t, cfg.Dir); bytes > cfg.MaxBytes {
		t.Errorf("%d bytes on the disk, at most %d wanted", bytes, cfg.MaxBytes)
	}
	depth := l.Depth()
	if depth >= n || depth < 50 {
		t.Fatalf("depth %d after %d", depth, n)
	}
	b.set(func() { b.down = false })
	eventually(t, "drained", func() bool { return l.Depth() == 0 })
	events := settle(t, b.records())
	if len(events) != depth || events[last.EventID] == nil || events[stays.EventID] == nil {
		t.Errorf("%d events, want %d; the last %v, the long one %v", len(events), depth, events[last.EventID] != nil, events[stays.EventID] != nil)
	}
}

// inOwnProcess runs the calling test again in a process of its own and says whether it is the parent, which then is done.
// A file size limit holds for a whole process: in the test's own it would also hit the log `go test` keeps there.
func inOwnProcess(t *testing.T) (parent bool) {
	t.Helper()
	const mark = "TURNOUT_EMIT_OWN_PROCESS"
	if os.Getenv(mark) != "" {
		return false
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1m")
	command.Env = append(os.Environ(), mark+"=1")
	out, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in its own process: %v\n%s", err, out)
	}
	return true
}

// failDisk makes every write to a file fail until the returned function is called. For tests in a process of their own.
func failDisk(t *testing.T) (heal func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	heal = func() {
		once.Do(func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(heal)
	return heal
}

func TestDiskErrors(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	b, cfg := &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	a, c, d := event(10), event(1), event(0)
	ta, tc := mustStart(t, l, a), mustStart(t, l, c)
	heal := failDisk(t)
	if _, err := l.Start(event(0)); !errors.Is(err, ErrSpoolBroken) {
		t.Fatalf("a start: %v", err)
	}
	l.Finish(ta, ended(a)) // the disk does not take it
	if err := l.Ready(); !errors.Is(err, ErrSpoolBroken) {
		t.Errorf("ready says %v", err)
	}
	l.Finish(tc, ended(c))
	time.Sleep(2 * repairEvery)
	if _, err := l.Start(d); !errors.Is(err, ErrSpoolBroken) {
		t.Fatalf("a start while the disk fails: %v", err)
	}
	if l.Depth() != 2 {
		t.Errorf("depth %d", l.Depth())
	}
	b.set(func() { b.answers = func(int) answer { return takes }; b.down = false })
	eventually(t, "ends in memory shipped", func() bool { return l.Depth() == 0 })
	heal()
	eventually(t, "ready again", func() bool { return l.Ready() == nil })
	l.Finish(mustStart(t, l, d), ended(d))
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if events := settle(t, b.records()); len(events) != 3 || events[a.EventID].Outcome != attempt.Completed {
		t.Errorf("%d events", len(events))
	}
}

func TestEndsTheDiskRefusedAreWrittenWhenItHeals(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	b, cfg := &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	a := event(10)
	ta := mustStart(t, l, a)
	heal := failDisk(t)
	l.Finish(ta, ended(a))
	heal()
	eventually(t, "ready again", func() bool { return l.Ready() == nil })
	_ = l.Close(expired()) // dies with Kafka down: only the disk has it
	b.set(func() { b.down = false })
	if r := shipAll(t, cfg.Dir, b); r.Sent != 1 || r.Interrupted != 0 {
		t.Fatalf("%+v", r)
	}
	if e := settle(t, b.records())[a.EventID]; e == nil || e.Outcome != attempt.Completed {
		t.Fatalf("%+v", e)
	}
}

func TestATicketIsGoodForOneEnd(t *testing.T) {
	b := &broker{}
	l := openLog(t, config(t), b)
	e := event(10)
	ticket := mustStart(t, l, e)
	for range 3 {
		l.Finish(ticket, ended(e))
	}
	l.Finish(Ticket{}, ended(e))
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.Finish(ticket, ended(e))
	if _, err := l.Start(event(0)); !errors.Is(err, ErrClosed) {
		t.Errorf("a start after Close: %v", err)
	}
	if n := len(b.records()); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestNoTextMakesARecordTooLarge(t *testing.T) {
	b := &broker{}
	l := openLog(t, config(t), b)
	e := event(10)
	ticket := mustStart(t, l, e)
	e = ended(e)
	e.RequestedModel, e.FinishReason = strings.Repeat("m", 1<<20), strings.Repeat("\x00", 1<<20)
	l.Finish(ticket, e)
	eventually(t, "shipped", func() bool { return l.Depth() == 0 })
	if r := b.records()[0]; len(r.Value) > maxValue {
		t.Errorf("%d bytes", len(r.Value))
	}
}

func TestConfigNamesItsMistakes(t *testing.T) {
	err := Config{Fsync: "sometimes", WhenFull: "panic", MaxBytes: 1}.Validate()
	for _, key := range []string{"spool.dir", "spool.max_bytes", "spool.when_full", "spool.fsync"} {
		if err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s is not named in %v", key, err)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// counted reads a counter off a registry.
func counted(t *testing.T, m *telemetry.Metrics, name string) int {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// What a dead process left during an outage counts into the bound. A gateway that was started anew then
// had no room of its own: with drop_oldest it refused every call instead of dropping what was oldest.
func TestAFullSpoolDropsWhatWasAdoptedFirst(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	cfg.MaxBytes, cfg.WhenFull = minMaxBytes, WhenFullDropOldest
	metrics := telemetry.NewMetrics()
	again := func() *Log {
		l, err := open(cfg, b, b, quiet, metrics)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(expired()) })
		return l
	}
	l := again()
	events := 0
	work := func(n int) *attempt.Event {
		t.Helper()
		var last *attempt.Event
		for range n {
			last = event(10)
			l.Finish(mustStart(t, l, last), ended(last))
			events++
		}
		return last
	}
	work(400)
	mustStart(t, l, event(0)) // never ends
	events++
	const name = "turnout_gateway_events_dropped_total"
	before := counted(t, metrics, name)
	_ = l.Close(expired())

	metrics = telemetry.NewMetrics()
	l = again()
	last := work(400)
	eventually(t, "room within the bound", func() bool {
		last = work(1)
		_, bytes := segmentsOf(t, cfg.Dir)
		return bytes <= cfg.MaxBytes
	})
	if l.spool.adopted.Load() != 0 {
		t.Errorf("%d bytes of what was adopted are left, though ever more newer events came", l.spool.adopted.Load())
	}
	b.set(func() { b.down = false })
	eventually(t, "drained", func() bool { return l.Depth() == 0 })
	eventually(t, "the dead one's directory gone", func() bool { dirs, _ := os.ReadDir(cfg.Dir); return len(dirs) == 1 })
	landed := settle(t, b.records())
	if landed[last.EventID] == nil {
		t.Error("the newest event is not in Kafka")
	}
	if lost := before + counted(t, metrics, name); len(landed)+lost != events {
		t.Errorf("%d in Kafka and %d counted as dropped of %d", len(landed), lost, events)
	}
}

// While a dead process's spool was still being read, nothing of it could be dropped: each request then
// dropped the newest events instead, and began a segment.
func TestNewEventsAreNotDroppedForWhatIsBeingRead(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	cfg.MaxBytes, cfg.WhenFull = minMaxBytes, WhenFullDropOldest
	metrics := telemetry.NewMetrics()
	l, err := open(cfg, b, b, quiet, metrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(expired()) })
	l.spool.mu.Lock()
	l.spool.dropOlder = func() bool { return false }
	l.spool.mu.Unlock()
	l.spool.adopted.Add(10 * cfg.MaxBytes)
	for range 50 {
		e := event(10)
		l.Finish(mustStart(t, l, e), ended(e))
	}
	if lost := counted(t, metrics, "turnout_gateway_events_dropped_total"); lost != 0 || l.spool.next > 10 {
		t.Errorf("%d dropped, %d segments begun", lost, l.spool.next)
	}
	l.spool.adopted.Add(-10 * cfg.MaxBytes)
}

// The first segment that was dropped took all starts without an end with it, though later ones hold them.
func TestDroppingASegmentLosesNoStartThatALaterOneHolds(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	open1 := event(0)
	mustStart(t, l, open1)
	for files := 0; files < 4; {
		e := event(10)
		l.Finish(mustStart(t, l, e), ended(e))
		list, _ := segmentsOf(t, cfg.Dir)
		files = len(list)
	}
	_ = l.Close(expired())
	l = openLog(t, cfg, b)
	var e *estate
	eventually(t, "a round is being sent", func() bool {
		if e = l.adopter.current.Load(); e == nil {
			return false
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.left) > 2 && len(e.done) > 0
	})
	time.Sleep(100 * time.Millisecond)
	if !l.adopter.drop() {
		t.Fatal("nothing could be dropped")
	}
	b.set(func() { b.down = false })
	eventually(t, "the dead one's directory gone", func() bool { dirs, _ := os.ReadDir(cfg.Dir); return len(dirs) == 1 })
	if got := settle(t, b.records())[open1.EventID]; got == nil || got.Outcome != attempt.Interrupted {
		t.Errorf("the start without an end is %+v", got)
	}
}

// The room of what was adopted was given back only when the whole directory was shipped.
func TestRoomComesBackSegmentBySegment(t *testing.T) {
	b, cfg := &broker{down: true}, config(t)
	cfg.MaxBytes = minMaxBytes
	l := openLog(t, cfg, b)
	for {
		e := event(10)
		ticket, err := l.Start(e)
		if errors.Is(err, ErrSpoolFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Finish(ticket, ended(e))
	}
	_ = l.Close(expired())
	left := 40
	b.set(func() {
		b.down, b.answers = false, func(int) answer { left--; return map[bool]answer{true: takes, false: refuses}[left > 0] }
	})
	l = openLog(t, cfg, b)
	all := l.spool.adopted.Load()
	if all == 0 {
		t.Fatal("nothing was adopted")
	}
	eventually(t, "some room", func() bool { n := l.spool.adopted.Load(); return n > 0 && n < all })
	b.set(func() { b.answers = nil })
	eventually(t, "all room", func() bool { return l.spool.adopted.Load() == 0 })
}
