package emit

import (
	"errors"
	"io"
	"os"
)

// take hands out up to limit records that were not handed out before: from memory, or, after an
// outage has filled that, from the disk.
func (s *spool) take(limit int) []*record {
	s.mu.Lock()
	if n := min(limit, len(s.queue)); n > 0 {
		list := append([]*record(nil), s.queue[:n]...)
		rest := copy(s.queue, s.queue[n:])
		clear(s.queue[rest:])
		s.queue = s.queue[:rest]
		for _, r := range list {
			s.queuedBytes -= int64(len(r.frame))
		}
		s.mu.Unlock()
		return list
	}
	if !s.spilled || limit == 0 {
		s.mu.Unlock()
		return nil
	}
	seg, from := s.spillSegment()
	end := seg.size
	s.mu.Unlock()

	list, reached := s.readBack(seg, from, end, limit)

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		r.seg.inHand++
	}
	s.spill = position{segment: seg.index, offset: reached}
	if !seg.gone && reached < seg.size {
		return list
	}
	s.spill = position{segment: seg.index + 1}
	if seg == s.current() {
		s.spilled = false // memory takes over from here
	}
	if missing := seg.unacked - seg.inHand; missing > 0 && !seg.gone {
		s.log.Error("events in the spool cannot be read any more", "file", seg.file.Name(), "events", missing)
		s.metrics.lost.Add(float64(missing))
		seg.unacked -= missing
		s.depth -= missing
		s.trim()
	}
	return list
}

// spillSegment returns where reading back goes on; mu is held.
func (s *spool) spillSegment() (*segment, int64) {
	for _, seg := range s.segments {
		switch {
		case seg.index == s.spill.segment:
			return seg, s.spill.offset
		case seg.index > s.spill.segment:
			return seg, 0
		}
	}
	return s.current(), s.current().size
}

// readBack reads ends between from and end, and says how far it came.
func (s *spool) readBack(seg *segment, from, end int64, limit int) (list []*record, reached int64) {
	sc := newScanner(seg.file, from, end)
	for len(list) < limit {
		f, err := sc.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				s.metrics.errors.Inc()
				s.log.Error("the event spool cannot be read", "file", seg.file.Name(), "error", err)
				return list, sc.good // tried again
			}
			s.lost(seg, sc.skipped+end-sc.good)
			return list, end
		}
		if f.kind != kindEnd && f.kind != kindRefusal {
			continue
		}
		r, err := readRecord(f)
		if err != nil { // right by its checksum, so written so
			s.log.Error("an event in the spool cannot be read", "file", seg.file.Name(), "offset", f.offset, "error", err)
			s.metrics.corrupt.Inc()
			continue
		}
		r.seg = seg
		list = append(list, r)
	}
	s.lost(seg, sc.skipped)
	return list, sc.good
}

// lost counts bytes that were whole when written and are not now.
func (s *spool) lost(seg *segment, bytes int64) {
	if bytes == 0 || seg.gone {
		return
	}
	s.metrics.corrupt.Inc()
	s.metrics.tornBytes.Add(float64(bytes))
	s.log.Error("the event spool is corrupted", "file", seg.file.Name(), "bytes", bytes)
}

// pending says whether take has anything to give.
func (s *spool) pending() (queued int, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), len(s.queue) > 0 || s.spilled
}
