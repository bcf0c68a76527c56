package emit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
)

// seqSet is a set of the dense numbers of one process: a bit each.
type seqSet map[uint64]*[128]uint64

func (s seqSet) add(n uint64) {
	page := s[n>>13]
	if page == nil {
		page = new([128]uint64)
		s[n>>13] = page
	}
	page[n>>6&127] |= 1 << (n & 63)
}

func (s seqSet) remove(n uint64) {
	if page := s[n>>13]; page != nil {
		page[n>>6&127] &^= 1 << (n & 63)
	}
}

func (s seqSet) has(n uint64) bool {
	page := s[n>>13]
	return page != nil && page[n>>6&127]&(1<<(n&63)) != 0
}

// estate is what a dead process left: first read for what became of each start, then shipped
// segment by segment.
type estate struct {
	dir    *directory
	sender *sender
	ended  seqSet
	died   time.Time // about
	acks   *segment  // where ours are noted
	next   uint64    // index for it
	report Report

	mu    sync.Mutex
	done  seqSet            // acknowledged, taken to be sent, dropped, or without a call
	left  []uint64          // segments, oldest first; none before all are read
	freed func(bytes int64) // a segment is gone
}

// shipDirectory sends, marked as replayed, what Kafka may not have of a dead process's directory,
// and removes it. It goes on until all is acknowledged or ctx ends; then the lock is given up and the
// rest stays. Killed meanwhile, it can be done again.
func shipDirectory(ctx context.Context, d *directory, s *sender) (Report, error) {
	return newEstate(d, s, func(int64) {}).settle(ctx)
}

// newEstate returns what is left in d, not yet read; freed is told of the bytes of each segment that
// is gone.
func newEstate(d *directory, s *sender, freed func(bytes int64)) *estate {
	return &estate{dir: d, sender: s, done: seqSet{}, ended: seqSet{}, freed: freed, report: Report{Directories: 1}}
}

// settle is shipDirectory.
func (e *estate) settle(ctx context.Context) (Report, error) {
	d, s := e.dir, e.sender
	err := e.ship(ctx)
	e.mu.Lock()
	e.left = nil // nothing can be dropped any more: the lock is about to be given up
	e.mu.Unlock()
	if errors.Is(err, errOtherVersion) {
		s.metrics.strange.Inc()
		s.log.Error("a spool directory is left as it is: another version of Turnout wrote it; run that version on it, or its `turnout spool ship`", "dir", d.path, "error", err)
		return Report{OtherVersion: 1}, d.leave()
	}
	if e.acks != nil {
		if err == nil {
			e.acks.remove()
		} else {
			_ = e.acks.file.Close()
		}
	}
	if err != nil {
		return e.report, errors.Join(fmt.Errorf("shipping %s: %w", d.path, err), d.leave())
	}
	if others := d.others(); len(others) > 0 {
		s.metrics.strange.Inc()
		s.log.Warn("a spool directory is shipped and left: it holds files that are not Turnout's", "dir", d.path, "files", others)
		e.report.NotEmpty = 1
		return e.report, d.leave()
	}
	return e.report, d.remove()
}

// errOtherVersion says that a segment holds frames, and none of this version.
var errOtherVersion = errors.New("a segment of another version")

func (e *estate) ship(ctx context.Context) error {
	indexes, err := segmentIndexes(e.dir.path)
	if err != nil {
		return err
	}
	for i, index := range indexes {
		if err := e.read(index, i == len(indexes)-1); err != nil {
			return err
		}
		e.next = index + 1
	}
	e.mu.Lock()
	e.left = indexes
	e.mu.Unlock()
	for {
		e.mu.Lock()
		if len(e.left) == 0 {
			e.mu.Unlock()
			return nil
		}
		index := e.left[0]
		e.mu.Unlock()
		if err := e.shipSegment(ctx, index); err != nil {
			return err
		}
	}
}

// drop gives the oldest segment up, counting what was to be sent of it, and says whether there was one.
func (e *estate) drop() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.left) == 0 {
		return false
	}
	index, lost := e.left[0], 0
	_, err := e.each(index, os.O_RDONLY, func(f frame) error {
		// A start without an end stands in every later segment too: only with the last it is lost.
		if e.wanted(f) && (f.kind != kindStart || len(e.left) == 1) {
			e.done.add(f.seq)
			lost++
		}
		return nil
	})
	e.sender.metrics.dropped.Add(float64(lost))
	e.sender.log.Warn("the event spool is full: the oldest events of a dead process are dropped", "dir", e.dir.path, "events", lost)
	if err = errors.Join(err, e.forget(index)); err != nil {
		e.sender.metrics.errors.Inc()
		e.sender.log.Error("a dropped segment of a dead process is in the way", "dir", e.dir.path, "error", err)
	}
	return true
}

// forget removes a segment; mu is held.
func (e *estate) forget(index uint64) error {
	path := segmentPath(e.dir.path, index)
	e.left = slices.DeleteFunc(e.left, func(i uint64) bool { return i == index })
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	e.freed(info.Size())
	return nil
}

// dropped says whether a segment was dropped while it was being shipped.
func (e *estate) dropped(index uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !slices.Contains(e.left, index)
}

// wanted says whether Kafka has yet to get what a frame holds; mu is held.
func (e *estate) wanted(f frame) bool {
	switch f.kind {
	case kindStart:
		return !e.done.has(f.seq) && !e.ended.has(f.seq)
	case kindEnd, kindLateEnd, kindRefusal:
		return !e.done.has(f.seq)
	}
	return false
}

// takes is wanted, of the frame's number for the last time.
func (e *estate) takes(f frame) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := e.wanted(f)
	if wanted {
		e.done.add(f.seq)
	}
	return wanted
}

// each calls f with every frame of a segment.
func (e *estate) each(index uint64, flag int, f func(frame) error) (*scanner, error) {
	file, err := os.OpenFile(segmentPath(e.dir.path, index), flag, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	sc := newScanner(file, 0, info.Size())
	for {
		fr, err := sc.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sc, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		if err := f(fr); err != nil {
			return sc, err
		}
	}
	if sc.good == 0 && otherVersion(file) {
		return sc, fmt.Errorf("%s: %w", file.Name(), errOtherVersion)
	}
	if flag == os.O_RDWR && sc.good < info.Size() {
		if err := file.Truncate(sc.good); err != nil {
			return sc, fmt.Errorf("cutting a torn tail: %w", err)
		}
	}
	return sc, nil
}

// otherVersion says whether a file, which holds no frame that can be read, begins like one.
func otherVersion(file *os.File) bool {
	var head [len(magic)]byte
	n, _ := file.ReadAt(head[:], 0)
	return n == len(head) && string(head[:len(family)]) == family && string(head[:]) != magic
}

// read learns what became of the starts. The last segment's tail is cut where it is torn.
func (e *estate) read(index uint64, last bool) error {
	info, err := os.Stat(segmentPath(e.dir.path, index))
	if err != nil {
		return err
	}
	if info.ModTime().After(e.died) {
		e.died = info.ModTime()
	}
	flag := os.O_RDONLY
	if last {
		flag = os.O_RDWR
	}
	sc, err := e.each(index, flag, func(f frame) error {
		switch f.kind {
		case kindEnd, kindLateEnd:
			e.ended.add(f.seq)
		case kindAck:
			f.acks(e.done.add)
		case kindVoid:
			e.done.add(f.seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if torn := sc.skipped + sc.end - sc.good; torn > 0 {
		e.report.TornBytes += torn
		e.report.Corrupt++
		e.sender.metrics.corrupt.Inc()
		e.sender.metrics.tornBytes.Add(float64(torn))
		e.sender.log.Warn("a spool segment has a part that cannot be read", "file", segmentPath(e.dir.path, index), "bytes", torn)
	}
	return nil
}

func (e *estate) shipSegment(ctx context.Context, index uint64) error {
	var round []*record
	flush := func() error {
		err := e.shipRound(ctx, index, round)
		round = round[:0]
		return err
	}
	_, err := e.each(index, os.O_RDONLY, func(f frame) error {
		if !e.takes(f) {
			return nil
		}
		r, err := readRecord(f)
		if err != nil {
			e.report.Corrupt++
			e.sender.metrics.corrupt.Inc()
			e.sender.log.Error("a record of a dead process cannot be read", "dir", e.dir.path, "error", err)
			return nil
		}
		if f.kind == kindStart {
			r.interrupt(e.died)
		}
		r.replayed = true
		if round = append(round, r); len(round) >= shipRecords {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if e.dropped(index) {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.forget(index); err != nil {
		return fmt.Errorf("removing a shipped segment: %w", err)
	}
	return nil
}

// shipRound sends until Kafka has every record, and notes that it has, or until their segment is dropped.
func (e *estate) shipRound(ctx context.Context, index uint64, round []*record) error {
	pause := pauseFirst
	for rest := round; len(rest) > 0; {
		n := min(len(rest), e.sender.limit)
		var seqs []uint64
		again := e.sender.send(ctx, rest[:n], func(r *record, _ kafkax.Ack) {
			seqs = append(seqs, r.seq)
			e.count(r)
		})
		if err := e.note(seqs); err != nil {
			return err
		}
		rest = append(again, rest[n:]...)
		if len(again) > 0 {
			sleep(ctx, pause)
			pause = min(2*pause, pauseMost)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(rest) > 0 && e.dropped(index) {
			e.giveUp(rest)
			return nil
		}
	}
	return nil
}

// giveUp counts what was dropped before Kafka had it. A start without an end stands in every later
// segment too: only with the last it is lost.
func (e *estate) giveUp(rest []*record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range rest {
		if len(e.left) > 0 && r.event != nil && r.event.Outcome == attempt.Interrupted {
			e.done.remove(r.seq)
			continue
		}
		e.sender.metrics.dropped.Inc()
	}
}

func (e *estate) count(r *record) {
	if r.event != nil && r.event.Outcome == attempt.Interrupted {
		e.report.Interrupted++
		e.sender.metrics.interrupted.Inc()
		return
	}
	e.report.Sent++
}

// note writes acknowledgements behind everything else, so that they go last.
func (e *estate) note(seqs []uint64) error {
	if len(seqs) == 0 {
		return nil
	}
	if e.acks == nil {
		f, err := os.OpenFile(segmentPath(e.dir.path, e.next), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("noting acknowledgements: %w", err)
		}
		e.acks = &segment{index: e.next, file: f}
	}
	return e.acks.append(appendAcks(nil, seqs))
}
