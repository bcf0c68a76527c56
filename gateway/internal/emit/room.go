package emit

import "fmt"

// makeRoom sees to it that a start, its end and the ends of all others fit into the current segment,
// within the bound; mu is held.
func (s *spool) makeRoom(p place) error {
	cur := s.current()
	fits := cur.size+p.size+p.reserve+s.reserved <= cur.alloc
	if fits && s.used() <= s.cfg.MaxBytes {
		return nil
	}
	alloc := max(s.cfg.segmentBytes(), s.openSize+s.reserved+p.size+p.reserve)
	cut := cur.footprint() - cur.size // what sealing gives back
	for s.used()-cut+alloc > s.cfg.MaxBytes {
		if s.cfg.WhenFull != WhenFullDropOldest || len(s.segments) == 1 && s.adopted.Load() == 0 {
			s.metrics.refusedFull.Inc()
			return ErrSpoolFull
		}
		if s.dropOlder() { // what dead processes left is older than anything of ours
			continue
		}
		if s.used()-s.adopted.Load()-cut+alloc <= s.cfg.MaxBytes {
			// Ours fit. Theirs are being read: their room comes in a moment, and newer events are not
			// dropped for it.
			if fits {
				return nil
			}
			break
		}
		if len(s.segments) == 1 {
			s.metrics.refusedFull.Inc()
			return ErrSpoolFull
		}
		s.dropOldest()
	}
	if err := s.rotateTo(alloc); err != nil {
		s.fail(err)
		s.rotate = true
		return fmt.Errorf("%w: %w", ErrSpoolBroken, err)
	}
	return nil
}

func (s *spool) dropOldest() {
	oldest := s.segments[0]
	s.metrics.dropped.Add(float64(oldest.unacked))
	s.log.Warn("the event spool is full: the oldest events are dropped", "events", oldest.unacked)
	s.depth -= oldest.unacked
	s.removeOldest()
}

func (s *spool) removeOldest() {
	oldest := s.segments[0]
	s.sealed -= oldest.footprint()
	oldest.remove()
	s.segments = s.segments[1:]
}

// trim removes the oldest segments as far as Kafka has all that is in them, and the next one, with
// the copies of their open starts, has been forced to the disk where that is done at all; mu is held.
func (s *spool) trim() {
	for len(s.segments) > 1 && s.segments[0].unacked == 0 && (s.segments[1].durable || s.cfg.Fsync == FsyncNever) {
		s.removeOldest()
	}
}

// rotateTo begins a new segment and copies the open starts into it. Only when they stand there, and
// on the disk if the policy wants that (see trim), can an older segment go; mu is held.
func (s *spool) rotateTo(alloc int64) error {
	old := s.current()
	index := s.next
	s.next++ // whatever becomes of it: a name is used once
	fresh, err := createSegment(s.dir.path, index, alloc)
	if err != nil {
		return err
	}
	moved, err := s.copyOpen(old, fresh)
	if err != nil {
		fresh.remove()
		return err
	}
	s.open = moved
	s.rotate, s.suspect = false, false
	old.seal()
	s.sealed += old.footprint()
	s.segments = append(s.segments, fresh)
	s.trim()
	s.at("rotate")
	return nil
}

func (s *spool) copyOpen(old, fresh *segment) (map[uint64]place, error) {
	moved := make(map[uint64]place, len(s.open))
	buf := s.scratch[:0]
	flush := func() error {
		err := fresh.append(buf)
		buf = buf[:0]
		return err
	}
	for seq, p := range s.open {
		at := len(buf)
		buf = append(buf, make([]byte, p.size)...)
		if _, err := old.file.ReadAt(buf[at:], p.offset); err != nil {
			return nil, fmt.Errorf("copying open starts: %w", err)
		}
		p.offset = fresh.size + int64(at)
		moved[seq] = p
		if len(buf) > 1<<20 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	err := flush()
	s.scratch = buf
	return moved, err
}
