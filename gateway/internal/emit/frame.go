package emit

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
)

// A segment is a row of frames: magic, length of the body, CRC-32C of the body, body. A body is a
// kind, the sequence number of the attempt within its process, and what the kind says:
//
//	start, end, lateEnd   traceparent (one byte of length before it), the event as JSON
//	refusal               an empty traceparent, the refusal as JSON
//	ack                   the sequence numbers Kafka has acknowledged, sorted, as varint differences
//	void                  nothing: the start of that number led to no call
//	probe                 nothing: written to see whether the disk takes it
type kind byte

const (
	kindStart kind = iota + 1
	kindEnd
	kindLateEnd // an end that was, or may be, missing on the disk before; the live shipper has it
	kindRefusal
	kindAck
	kindVoid
	kindProbe
)

const (
	magic       = family + "1"
	family      = "\xf5TO" // what frames of every version begin with
	headerBytes = 12
	prefixBytes = headerBytes + 9
	maxBody     = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame appends what stands before a frame's payload; sealFrame completes it.
func beginFrame(b []byte, k kind, seq uint64) []byte {
	b = append(b, magic...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, byte(k))
	return binary.LittleEndian.AppendUint64(b, seq)
}

func sealFrame(frame []byte) {
	body := frame[headerBytes:]
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(body, castagnoli))
}

func appendText(b []byte, text string) []byte {
	if len(text) > 255 {
		text = ""
	}
	return append(append(b, byte(len(text))), text...)
}

// appendAcks appends an ack frame; it sorts seqs.
func appendAcks(b []byte, seqs []uint64) []byte {
	slices.Sort(seqs)
	start := len(b)
	b = beginFrame(b, kindAck, 0)
	last := uint64(0)
	for _, seq := range seqs {
		b = binary.AppendUvarint(b, seq-last)
		last = seq
	}
	sealFrame(b[start:])
	return b
}

// frame is one that was read. payload is valid until the next one is read.
type frame struct {
	kind    kind
	seq     uint64
	payload []byte
	offset  int64
	size    int64
}

// text splits what start, end and refusal frames hold.
func (f frame) text() (traceparent string, json []byte) {
	if len(f.payload) == 0 || len(f.payload) < 1+int(f.payload[0]) {
		return "", nil
	}
	n := 1 + int(f.payload[0])
	return string(f.payload[1:n]), f.payload[n:]
}

// acks calls f with each acknowledged number.
func (f frame) acks(each func(seq uint64)) {
	seq := uint64(0)
	for b := f.payload; len(b) > 0; {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		seq += d
		each(seq)
		b = b[n:]
	}
}

// scanner reads frames from a part of a file and passes over what is none.
type scanner struct {
	file    io.ReaderAt
	pos     int64  // of window[0]
	end     int64  // nothing is read from here on
	window  []byte // read and not yet consumed
	storage []byte
	good    int64 // end of the last frame that was right
	skipped int64 // bytes passed over before such a frame
}

func newScanner(file io.ReaderAt, from, to int64) *scanner {
	return &scanner{file: file, pos: from, end: to, good: from}
}

const windowBytes = 256 << 10

// fill makes the window hold n bytes if the file has them.
func (s *scanner) fill(n int) (bool, error) {
	if len(s.window) >= n {
		return true, nil
	}
	if s.end-s.pos < int64(n) {
		return false, nil
	}
	want := int(min(int64(max(n, windowBytes)), s.end-s.pos))
	if cap(s.storage) < want {
		s.storage = make([]byte, want)
	}
	have := copy(s.storage[:want], s.window)
	if m, err := s.file.ReadAt(s.storage[have:want], s.pos+int64(have)); err != nil && m < want-have {
		return false, err
	}
	s.window = s.storage[:want]
	return true, nil
}

func (s *scanner) advance(n int) {
	s.window = s.window[n:]
	s.pos += int64(n)
}

// next returns the next frame; io.EOF at the end. What lies between good and end then is torn.
func (s *scanner) next() (frame, error) {
	for {
		if ok, err := s.fill(prefixBytes); err != nil || !ok {
			if err == nil {
				err = io.EOF
			}
			return frame{}, err
		}
		f, ok, err := s.parse()
		if err != nil {
			return frame{}, err
		}
		if ok {
			s.skipped += f.offset - s.good
			s.good = s.pos
			return f, nil
		}
		if next := bytes.Index(s.window[1:], []byte(magic)); next >= 0 {
			s.advance(1 + next)
		} else { // the magic may begin in the last three bytes
			s.advance(max(1, len(s.window)-len(magic)+1))
		}
	}
}

func (s *scanner) parse() (frame, bool, error) {
	length := int(binary.LittleEndian.Uint32(s.window[4:]))
	if string(s.window[:4]) != magic || length < 9 || length > maxBody {
		return frame{}, false, nil
	}
	total := headerBytes + length
	if ok, err := s.fill(total); err != nil || !ok {
		return frame{}, false, err
	}
	body := s.window[headerBytes:total]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(s.window[8:]) {
		return frame{}, false, nil
	}
	f := frame{
		kind: kind(body[0]), seq: binary.LittleEndian.Uint64(body[1:]), payload: body[9:],
		offset: s.pos, size: int64(total),
	}
	s.advance(total)
	return f, true, nil
}
