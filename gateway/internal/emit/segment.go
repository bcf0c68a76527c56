package emit

import (
	"errors"
	"fmt"
	"os"
)

// segment is one file of the spool.
type segment struct {
	index   uint64
	file    *os.File
	size    int64 // of whole frames
	alloc   int64 // bytes set aside on the disk
	unacked int   // ends and refusals in it that Kafka has not acknowledged
	inHand  int   // those of them that are in memory
	dirty   bool  // written to since it was last forced to the disk
	durable bool  // its first frames, and its name, have been
	gone    bool  // removed, or dropped for want of room
}

var fdatasync = datasync // tests let it fail

func createSegment(dir string, index uint64, alloc int64) (*segment, error) {
	f, err := os.OpenFile(segmentPath(dir, index), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a spool segment: %w", err)
	}
	s := &segment{index: index, file: f, alloc: alloc}
	if err := allocate(f, alloc); err != nil {
		s.remove()
		return nil, fmt.Errorf("setting %d bytes aside for a spool segment: %w", alloc, err)
	}
	return s, nil
}

// append writes whole frames behind the others. After an error the segment is as before: the next
// write goes to the same place.
func (s *segment) append(frames []byte) error {
	if _, err := s.file.WriteAt(frames, s.size); err != nil {
		_ = s.file.Truncate(s.size) // what was written of it would only look torn
		return fmt.Errorf("writing to the spool: %w", err)
	}
	s.size += int64(len(frames))
	s.dirty = true
	return nil
}

// seal gives back the room that is not used.
func (s *segment) seal() {
	_ = s.file.Truncate(s.size)
	s.alloc = s.size
}

func (s *segment) footprint() int64 { return max(s.size, s.alloc) }

func (s *segment) remove() {
	s.gone = true
	_ = os.Remove(s.file.Name())
	_ = s.file.Close()
}

// sync forces the segment to the disk. One that is closed is not needed any more.
func (s *segment) sync() error {
	if err := fdatasync(s.file); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("forcing the spool to the disk: %w", err)
	}
	return nil
}
