package emit

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
)

// model is what must hold of the spool after any row of starts, ends, rounds to a Kafka that takes,
// refuses or loses the answer, rotations and deaths.
type model struct {
	t      *rapid.T
	root   string
	cfg    Config
	broker *broker
	spool  *spool
	ship   *shipper
	again  []*record

	open     map[string]*attempt.Event // by event id; value as started
	tickets  map[string]uint64
	order    []string
	finished map[string]bool
	dead     map[string]bool // started by a process that died before the end
}

func (m *model) birth() {
	metrics := newMetrics(telemetry.NewMetrics())
	s, err := openSpool(m.cfg, quiet, metrics)
	if err != nil {
		m.t.Fatalf("%v", err)
	}
	m.spool, m.again = s, nil
	m.ship = &shipper{sender: newSender(m.broker, m.broker, quiet, metrics), spool: s}
	m.open, m.tickets, m.order = map[string]*attempt.Event{}, map[string]uint64{}, nil
}

func (m *model) start(*rapid.T) {
	e := event(rapid.IntRange(0, 3).Draw(m.t, "considered"))
	r := newRecord(kindStart, m.spool.seq.Add(1))
	r.encodeEvent(e, nil)
	if err := m.spool.start(r); err != nil {
		if m.cfg.WhenFull == WhenFullReject && err == ErrSpoolFull {
			return
		}
		m.t.Fatalf("start: %v", err)
	}
	m.open[e.EventID], m.tickets[e.EventID] = e, r.seq
	m.order = append(m.order, e.EventID)
}

func (m *model) finish(t *rapid.T) {
	if len(m.order) == 0 {
		t.Skip("nothing is open")
	}
	i := rapid.IntRange(0, len(m.order)-1).Draw(t, "which")
	id := m.order[i]
	m.order = append(m.order[:i], m.order[i+1:]...)
	if !m.spool.claim(m.tickets[id]) {
		t.Fatalf("the open start %s is not known", id)
	}
	r := newRecord(kindEnd, m.tickets[id])
	r.encodeEvent(ended(m.open[id]), nil)
	if !m.spool.finish(r) {
		t.Fatalf("the end of %s was refused", id)
	}
	delete(m.open, id)
	m.finished[id] = true
}

func (m *model) round(t *rapid.T) {
	fate := rapid.SampledFrom([]answer{takes, takes, loses, refuses}).Draw(t, "fate")
	mixed := rapid.Bool().Draw(t, "mixed")
	m.broker.set(func() {
		m.broker.answers = func(i int) answer {
			if mixed && i%3 == 0 {
				return takes
			}
			return fate
		}
	})
	m.ship.limit = rapid.SampledFrom([]int{1, 7, shipRecords}).Draw(t, "limit")
	m.again, _ = m.ship.round(context.Background(), m.again)
}

func (m *model) rotate(*rapid.T) {
	m.spool.mu.Lock()
	defer m.spool.mu.Unlock()
	if err := m.spool.rotateTo(m.cfg.segmentBytes()); err != nil {
		m.t.Fatalf("%v", err)
	}
}

func (m *model) force(*rapid.T) {
	if _, err := m.spool.force(); err != nil {
		m.t.Fatalf("%v", err)
	}
}

// spillAll fills the memory, so that later ends are on the disk only.
func (m *model) spillAll(*rapid.T) {
	m.spool.mu.Lock()
	defer m.spool.mu.Unlock()
	m.spool.queuedBytes += maxQueuedBytes
}

// die leaves the directory as it is at this instant; a torn write may end it.
func (m *model) die(t *rapid.T) {
	m.spool.mu.Lock()
	for _, seg := range m.spool.segments {
		_ = seg.file.Close()
	}
	_ = m.spool.dir.leave()
	last := m.spool.current()
	m.spool.mu.Unlock()
	if n := rapid.IntRange(0, 60).Draw(t, "torn"); n > 0 {
		f, err := os.OpenFile(last.file.Name(), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatalf("%v", err)
		}
		_, _ = f.Write(frameOf(kindEnd, 1<<40, make([]byte, 100))[:n])
		_ = f.Close()
	}
	for id := range m.open {
		m.dead[id] = true
	}
	if rapid.Bool().Draw(t, "adopter dies too") { // after some rounds; the next does it again
		ctx, cancel := context.WithCancel(context.Background())
		calls := rapid.IntRange(0, 3).Draw(t, "calls")
		m.broker.set(func() {
			m.broker.answers = func(int) answer {
				if calls--; calls < 0 {
					cancel()
					return loses
				}
				return takes
			}
		})
		s := newSender(m.broker, m.broker, quiet, m.spool.metrics)
		s.limit = 2
		_, _ = shipDir(ctx, m.root, s)
		cancel()
	}
	m.birth()
}

func (m *model) check(t *rapid.T) {
	s := m.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	var unacked int
	var sealed int64
	for _, seg := range s.segments {
		unacked += seg.unacked
		if seg.unacked < seg.inHand || seg.inHand < 0 {
			t.Fatalf("segment %d: %d unacknowledged, %d in memory", seg.index, seg.unacked, seg.inHand)
		}
		if seg != s.current() {
			sealed += seg.footprint()
		}
	}
	if unacked != s.depth || sealed != s.sealed {
		t.Fatalf("depth %d, counted %d; sealed %d, counted %d", s.depth, unacked, s.sealed, sealed)
	}
	if len(s.segments) > 1 && s.segments[0].unacked == 0 && (s.cfg.Fsync == FsyncNever || s.segments[1].durable) {
		t.Fatalf("segment %d should be gone", s.segments[0].index)
	}
	if len(s.open) != len(m.open) {
		t.Fatalf("%d open, want %d", len(s.open), len(m.open))
	}
	if s.used() > s.cfg.MaxBytes+64<<10 {
		t.Fatalf("%d bytes used", s.used())
	}
}

func TestSpoolModel(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatalf("%v", err)
		}
		cfg := Default()
		cfg.Dir, cfg.MaxBytes = root, minMaxBytes
		cfg.Fsync = rapid.SampledFrom([]string{FsyncNever, FsyncNever, FsyncInterval, FsyncAlways}).Draw(t, "fsync")
		m := &model{t: t, root: root, cfg: cfg, broker: &broker{}, finished: map[string]bool{}, dead: map[string]bool{}}
		m.birth()
		t.Repeat(map[string]func(*rapid.T){
			"start": m.start, "start again": m.start, "start once more": m.start, "finish": m.finish, "finish again": m.finish,
			"round": m.round, "rotate": m.rotate, "spill": m.spillAll, "force": m.force, "die": m.die, "": m.check,
		})
		m.broker.set(func() { m.broker.answers = nil })
		for m.spool.depth > 0 {
			m.again, _ = m.ship.round(context.Background(), m.again)
		}
		for id := range m.open {
			m.dead[id] = true
		}
		if _, err := m.spool.close(); err != nil {
			t.Fatalf("%v", err)
		}
		if _, err := shipDir(context.Background(), root, newSender(m.broker, m.broker, quiet, m.spool.metrics)); err != nil {
			t.Fatalf("%v", err)
		}
		if left, _ := filepath.Glob(root + "/*"); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
		events := settle(t, m.broker.records())
		for id := range m.finished {
			if e := events[id]; e == nil || e.Outcome != attempt.Completed {
				t.Fatalf("finished %s is %+v", id, e)
			}
		}
		for id := range m.dead {
			if e := events[id]; e == nil || e.Outcome != attempt.Interrupted {
				t.Fatalf("interrupted %s is %+v", id, e)
			}
		}
		if len(events) != len(m.finished)+len(m.dead) {
			t.Fatalf("%d events of %d attempts", len(events), len(m.finished)+len(m.dead))
		}
	})
}
