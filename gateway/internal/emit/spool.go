package emit

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"turnout/internal/failpoint"
)

// Errors of Start.
var (
	ErrSpoolFull   = errors.New("the event spool is full: Kafka has not taken events for too long, or spool.max_bytes is too small")
	ErrSpoolBroken = errors.New("the event spool cannot be written")
	ErrClosed      = errors.New("the event spool is closed")
)

const (
	// endRoom is what an end may take beyond its start.
	endRoom = 2048
	// What waits for Kafka in memory at most; the rest is read back from the disk.
	maxQueued      = 4096
	maxQueuedBytes = 16 << 20
)

// place is where an open start stands in the current segment, and what is set aside for its end.
type place struct {
	offset, size, reserve int64
	claimed               bool // its end is being written
}

// position is a place in the row of segments.
type position struct {
	segment uint64
	offset  int64
}

// spool keeps starts and ends on the disk until Kafka has the ends. All open starts stand in the
// current segment: rotation copies them there. So every older one can go as soon as its own ends are
// acknowledged and it is the oldest.
type spool struct {
	cfg       Config
	dir       *directory
	log       *slog.Logger
	metrics   *metrics
	adopted   atomic.Int64      // bytes in directories of dead processes that wait here
	dropOlder func() bool       // drops the oldest segment of those; false: none can be dropped now
	at        func(name string) // named points, for tests that kill the process there

	seq atomic.Uint64

	mu       sync.Mutex
	segments []*segment // the last one is written to
	next     uint64     // index of the next segment
	sealed   int64      // bytes in all but the last
	open     map[uint64]place
	openSize int64 // of the starts in open
	reserved int64 // for their ends
	depth    int   // ends and refusals Kafka has not acknowledged
	broken   error
	rotate   bool // the spool is well only once it has a new segment
	suspect  bool // the current segment may lose what is written to it
	draining bool // no more starts
	closed   bool
	scratch  []byte

	queue       []*record // ends in the order of the segments, then those the disk refused
	queuedBytes int64
	spilled     bool     // ends from spill on are on the disk only
	spill       position // the next to be read back
	late        []*late
	lateAcks    []uint64 // acknowledged, not yet on the disk
	wake, full  chan struct{}

	sync groupSync
}

// atPoint is called at named points; tests kill the process there.
var atPoint = failpoint.Reach

func openSpool(cfg Config, log *slog.Logger, m *metrics) (*spool, error) {
	dir, err := makeDirectory(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &spool{
		cfg: cfg, dir: dir, log: log, metrics: m, at: atPoint,
		dropOlder: func() bool { return false }, open: map[uint64]place{}, wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
	s.sync.init(s)
	first, err := createSegment(dir.path, 0, cfg.segmentBytes())
	if err != nil {
		return nil, errors.Join(err, dir.remove())
	}
	s.segments, s.next = []*segment{first}, 1
	if cfg.Fsync != FsyncNever {
		if err := errors.Join(syncDir(dir.path), syncDir(cfg.Dir)); err != nil {
			first.remove()
			return nil, errors.Join(fmt.Errorf("forcing the spool directory to the disk: %w", err), dir.remove())
		}
	}
	return s, nil
}

func (s *spool) current() *segment { return s.segments[len(s.segments)-1] }

// used is what the spool takes on the disk.
func (s *spool) used() int64 { return s.sealed + s.current().footprint() + s.adopted.Load() }

// write appends frames to the current segment; mu is held.
func (s *spool) write(frames []byte) error {
	if err := s.current().append(frames); err != nil {
		s.fail(err)
		return err
	}
	s.sync.written += uint64(len(frames))
	return nil
}

// fail notes that the disk is at fault; mu is held.
func (s *spool) fail(err error) {
	s.metrics.errors.Inc()
	if s.broken == nil {
		s.log.Error("the event spool cannot be written: new calls are refused until it can", "dir", s.dir.path, "error", err)
	}
	s.broken = err
}

// start writes a start record and sets room aside for its end.
func (s *spool) start(r *record) error {
	size := int64(len(r.frame))
	p := place{size: size, reserve: size + endRoom}
	s.mu.Lock()
	switch {
	case s.draining:
		s.mu.Unlock()
		return ErrClosed
	case s.broken != nil:
		err := s.broken
		s.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrSpoolBroken, err)
	}
	err := s.makeRoom(p)
	if err == nil {
		p.offset = s.current().size
		if err = s.write(r.frame); err != nil {
			err = fmt.Errorf("%w: %w", ErrSpoolBroken, err)
		}
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.open[r.seq] = p
	s.openSize += p.size
	s.reserved += p.reserve
	mark := s.sync.written
	s.mu.Unlock()
	if s.cfg.Fsync == FsyncAlways {
		if err := s.sync.wait(mark); err != nil {
			s.void(r.seq)
			return fmt.Errorf("%w: %w", ErrSpoolBroken, err)
		}
	}
	s.at("start")
	return nil
}

// void takes a start back that led to no call.
func (s *spool) void(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(seq)
	s.scratch = beginFrame(s.scratch[:0], kindVoid, seq)
	sealFrame(s.scratch)
	_ = s.write(s.scratch) // at worst an interrupted event without a call, which is allowed
}

func (s *spool) forget(seq uint64) bool {
	p, ok := s.open[seq]
	if ok {
		delete(s.open, seq)
		s.openSize -= p.size
		s.reserved -= p.reserve
	}
	return ok
}

// refuse is finish for a refusal, which has no start and no room set aside: it is taken if there is
// room and the disk is well.
func (s *spool) refuse(r *record) (taken bool) {
	s.mu.Lock()
	err := s.broken
	if s.closed {
		err = ErrClosed
	}
	if err == nil {
		err = s.makeRoom(place{size: int64(len(r.frame))})
	}
	if err != nil {
		s.mu.Unlock()
		return false
	}
	s.open[r.seq] = place{} // so that finish knows it
	s.mu.Unlock()
	return s.finish(r)
}

// claim says whether seq is an open start whose end nobody has begun to write; now somebody has.
func (s *spool) claim(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.open[seq]
	if !ok || p.claimed {
		return false
	}
	p.claimed = true
	s.open[seq] = p
	return true
}

// finish writes a claimed end and hands it to the shipper. It never fails: what the disk
// does not take stays in memory. It returns false after close, and for a refusal that the disk does
// not take. The record is the spool's from here on.
func (s *spool) finish(r *record) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.depth++
	offset := s.current().size
	err := s.broken
	if !s.suspect {
		err = s.write(r.frame)
	}
	if err != nil && r.kind == kindRefusal {
		s.forget(r.seq)
		s.depth--
		s.mu.Unlock()
		return false
	}
	if err != nil {
		s.keepLate(r, r)
		s.enqueue(r)
		s.mu.Unlock()
		return true
	}
	s.forget(r.seq)
	seq, frame := r.seq, r.frame // r may be shipped and gone once mu is given up
	r.seg = s.current()
	r.seg.unacked++
	mark := s.sync.written
	if s.cfg.Fsync == FsyncAlways {
		frame = append([]byte(nil), frame...)
	}
	if !s.spilled && len(s.queue) < maxQueued && s.queuedBytes < maxQueuedBytes {
		r.seg.inHand++
		s.enqueue(r)
	} else {
		if !s.spilled {
			s.spilled, s.spill = true, position{segment: r.seg.index, offset: offset}
		}
		r.free()
	}
	s.mu.Unlock()
	if s.cfg.Fsync == FsyncAlways {
		if err := s.sync.wait(mark); err != nil {
			s.mu.Lock()
			s.keepLate(nil, &record{seq: seq, frame: frame})
			s.mu.Unlock()
		}
	}
	s.at("end")
	return true
}

func (s *spool) enqueue(r *record) {
	s.queue = append(s.queue, r)
	s.queuedBytes += int64(len(r.frame))
	nudge(s.wake)
	if len(s.queue) >= shipRecords {
		nudge(s.full)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *spool) refuseStarts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// close gives the directory up and returns how many records stay in it.
func (s *spool) close() (left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	left = s.depth + len(s.open)
	for _, seg := range s.segments {
		if left == 0 {
			seg.remove()
			continue
		}
		if s.cfg.Fsync != FsyncNever {
			err = errors.Join(err, seg.sync())
		}
		seg.seal()
		err = errors.Join(err, seg.file.Close())
	}
	if left == 0 {
		return 0, s.dir.remove()
	}
	return left, errors.Join(err, s.dir.leave())
}
