package emit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

func (s seqSet) has(n uint64) bool {
	page := s[n>>13]
	return page != nil && page[n>>6&127]&(1<<(n&63)) != 0
}

// estate is what a dead process left: first read for what became of each start, then shipped
// segment by segment.
type estate struct {
	dir    *directory
	sender *sender
	done   seqSet // acknowledged, sent, or without a call
	ended  seqSet
	died   time.Time // about
	acks   *segment  // where ours are noted
	next   uint64    // index for it
	report Report
}

// shipDirectory sends, marked as replayed, what Kafka may not have of a dead process's directory,
// and removes it. It goes on until all is acknowledged or ctx ends; then the lock is given up and the
// rest stays. Killed meanwhile, it can be done again.
func shipDirectory(ctx context.Context, d *directory, s *sender) (Report, error) {
	e := &estate{dir: d, sender: s, done: seqSet{}, ended: seqSet{}, report: Report{Directories: 1}}
	err := e.ship(ctx)
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
	for _, index := range indexes {
		if err := e.shipSegment(ctx, index); err != nil {
			return err
		}
	}
	return nil
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
		err := e.shipRound(ctx, round)
		round = round[:0]
		return err
	}
	_, err := e.each(index, os.O_RDONLY, func(f frame) error {
		switch {
		case e.done.has(f.seq):
			return nil
		case f.kind == kindStart && e.ended.has(f.seq):
			return nil
		case f.kind != kindStart && f.kind != kindEnd && f.kind != kindLateEnd && f.kind != kindRefusal:
			return nil
		}
		e.done.add(f.seq)
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
	if err != nil {
		return err
	}
	if err := os.Remove(segmentPath(e.dir.path, index)); err != nil {
		return fmt.Errorf("removing a shipped segment: %w", err)
	}
	return nil
}

// shipRound sends until Kafka has every record, and notes that it has.
func (e *estate) shipRound(ctx context.Context, round []*record) error {
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
		if len(again) > 0 {
			sleep(ctx, pause)
			pause = min(2*pause, pauseMost)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rest = append(again, rest[n:]...)
	}
	return nil
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
