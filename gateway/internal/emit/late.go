package emit

import "slices"

// late is an end that the disk refused.
type late struct {
	rec   *record // the shipper's, where no segment has the end; nil where one has it, perhaps not durably
	seq   uint64
	frame []byte
}

// keepLate remembers an end until the disk takes it. rec is the record itself if no segment has it.
func (s *spool) keepLate(rec, from *record) {
	frame := append([]byte(nil), from.frame...)
	if kind(frame[headerBytes]) == kindEnd {
		frame[headerBytes] = byte(kindLateEnd)
		sealFrame(frame)
	}
	s.late = append(s.late, &late{rec: rec, seq: from.seq, frame: frame})
}

// repair tries to write what the disk refused, and whether it takes anything. Afterwards the spool
// is well or still broken.
func (s *spool) repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil || s.closed {
		return
	}
	saved := !s.suspect && s.saveLate()
	if s.rotate || !saved {
		if err := s.rotateTo(max(s.cfg.segmentBytes(), s.openSize+s.reserved)); err != nil {
			s.fail(err)
			s.rotate = true
			return
		}
		if !saved && !s.saveLate() {
			return
		}
	}
	s.scratch = beginFrame(s.scratch[:0], kindProbe, 0)
	sealFrame(s.scratch)
	if s.write(s.scratch) != nil || s.writeAcks(nil) != nil {
		s.rotate = true // another file may be better
		return
	}
	if s.cfg.Fsync == FsyncAlways {
		if err := s.current().sync(); err != nil {
			s.fail(err)
			s.rotate, s.suspect = true, true
			return
		}
	}
	s.log.Info("the event spool can be written again", "dir", s.dir.path)
	s.broken = nil
}

// saveLate writes the ends that the disk refused before; mu is held.
func (s *spool) saveLate() bool {
	for len(s.late) > 0 {
		l := s.late[0]
		if s.write(l.frame) != nil {
			return false
		}
		if l.rec != nil {
			l.rec.seg = s.current()
			l.rec.seg.unacked++
			l.rec.seg.inHand++
			s.forget(l.seq)
		}
		s.late = s.late[1:]
	}
	return true
}

// acked notes that Kafka has the records; those are the caller's again.
func (s *spool) acked(list []*record) {
	s.at("ack")
	seqs := make([]uint64, 0, len(list)+len(s.lateAcks))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		seqs = append(seqs, r.seq)
		switch {
		case r.seg == nil: // the disk has only its start, which nobody needs any more
			s.forget(r.seq)
			s.late = slices.DeleteFunc(s.late, func(l *late) bool { return l.rec == r })
		case r.seg.gone:
			continue // counted as dropped
		default:
			r.seg.unacked--
			r.seg.inHand--
		}
		s.depth--
	}
	_ = s.writeAcks(seqs)
	s.trim()
	s.at("acked")
}

// writeAcks notes numbers on the disk, so that nobody who adopts the directory sends them again. What
// cannot be written is tried again with the next ones; mu is held.
func (s *spool) writeAcks(seqs []uint64) error {
	seqs = append(seqs, s.lateAcks...)
	if len(seqs) == 0 {
		return nil
	}
	s.scratch = appendAcks(s.scratch[:0], seqs)
	if err := s.write(s.scratch); err != nil {
		s.lateAcks = seqs
		return err
	}
	s.lateAcks = nil
	return nil
}
