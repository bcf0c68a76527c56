// Package sse reads server-sent events incrementally.
package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// MaxEvent is the largest event that a Reader reads unless it is told another limit, in bytes.
const MaxEvent = 1 << 20

// Done is the event that ends a chat stream.
const Done = "data: [DONE]\n\n"

// ErrTooLarge is returned for an event above the limit.
var ErrTooLarge = errors.New("an event larger than is read")

// Event is one block of lines up to and including its empty line. All slices are valid until the next
// call of Next.
type Event struct {
	Raw   []byte // as it came; without an empty line at its end if the stream broke off
	Name  []byte // of the event: field; empty: none
	Data  []byte // of the data: lines, joined by a line feed
	Lines int    // data: lines; 0: nothing but comments and other fields
	At    int    // offset of Data in Raw where Lines is 1
	Whole bool   // ended by its empty line

	nameAt, nameLen, dataLen int // in Raw
}

// Reader reads events from r. Lines end in LF, CRLF or CR (which counts once the byte behind it is
// there). It holds one event at most, whatever the stream's length. It is not safe for concurrent use.
type Reader struct {
	r     io.Reader
	buf   []byte
	start int // of the event being read
	next  int // of the line being read
	seen  int // up to where the line being read was searched for its end
	end   int // of what was read
	first bool
	err   error  // of r, kept until everything before it was returned
	join  []byte // Data of events with several data: lines
	pool  *[]byte
	max   int // bytes of an event
}

// bufferSize is what a reader begins with; most streams never need more.
const bufferSize = 4 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// NewReader returns a Reader of events up to MaxEvent, to be released.
func NewReader(r io.Reader) *Reader { return NewReaderUpTo(r, MaxEvent) }

// NewReaderUpTo returns a Reader of events up to so many bytes, to be released.
func NewReaderUpTo(r io.Reader, limit int) *Reader {
	pool := buffers.Get().(*[]byte)
	return &Reader{r: r, buf: *pool, pool: pool, first: true, max: limit}
}

// Release gives the reader's memory back. Events become invalid; Next must not be called again.
func (r *Reader) Release() {
	if r.pool != nil {
		buffers.Put(r.pool)
	}
	r.pool, r.buf, r.join = nil, nil, nil
}

// Next reads up to the end of the next event. At the end of the stream it returns what there is of a
// last event without its empty line (Whole false), then the error of the underlying reader, io.EOF for
// a clean end. Blocks of nothing but empty lines are passed over.
func (r *Reader) Next() (Event, error) {
	r.start = r.next
	var e Event
	for {
		lineEnd, next, ok := r.line()
		if !ok {
			if r.err == nil {
				if err := r.fill(); err != nil {
					return Event{}, err
				}
				continue
			}
			return r.last(&e)
		}
		line := r.buf[r.next:lineEnd]
		at := r.next
		r.next, r.seen, r.first = next, next, false
		if len(line) > 0 {
			r.field(&e, line, at-r.start)
			continue
		}
		if at == r.start { // an empty line between events
			r.start = next
			continue
		}
		e.Whole = true
		return r.finish(&e)
	}
}

// Buffered says whether another whole event has been read already.
func (r *Reader) Buffered() bool {
	rest := r.buf[r.next:r.end]
	return bytes.Contains(rest, []byte("\n\n")) || bytes.Contains(rest, []byte("\n\r\n")) || bytes.Contains(rest, []byte("\r\r"))
}

// line finds the end of the line at r.next: where its text ends and where the next line begins.
func (r *Reader) line() (end, next int, ok bool) {
	window := r.buf[r.seen:r.end]
	lf := bytes.IndexByte(window, '\n')
	if lf >= 0 {
		window = window[:lf]
	}
	if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
		i := r.seen + cr
		switch {
		case i+1 < r.end && r.buf[i+1] == '\n':
			return i, i + 2, true
		case i+1 < r.end || r.err != nil:
			return i, i + 1, true
		}
		r.seen = i // the next byte decides
		return 0, 0, false
	}
	if lf >= 0 {
		return r.seen + lf, r.seen + lf + 1, true
	}
	r.seen = r.end
	return 0, 0, false
}

// fill reads more. It makes room first: what was returned is dropped, then the buffer grows.
func (r *Reader) fill() error {
	if r.end == len(r.buf) {
		if r.start > 0 {
			copy(r.buf, r.buf[r.start:r.end])
			r.shift()
		} else {
			if r.end-r.start > r.max {
				r.err = ErrTooLarge
				r.next, r.seen, r.end = r.start, r.start, r.start
				return ErrTooLarge
			}
			grown := make([]byte, min(2*len(r.buf), r.max+bufferSize))
			copy(grown, r.buf[:r.end])
			r.buf = grown
		}
	} else if r.start == r.end {
		r.shift()
	}
	n, err := r.r.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.err = err
	}
	if r.first && r.end > 0 && (r.end >= 3 || r.buf[0] != 0xEF) {
		r.first = false
		if bytes.HasPrefix(r.buf[:r.end], []byte("\xef\xbb\xbf")) {
			r.start, r.next, r.seen = 3, 3, 3
		}
	}
	return nil
}

func (r *Reader) shift() {
	r.next -= r.start
	r.seen -= r.start
	r.end -= r.start
	r.start = 0
}

// last returns what the stream broke off in, or its error.
func (r *Reader) last(e *Event) (Event, error) {
	if r.next < r.end { // a line without its end
		r.field(e, r.buf[r.next:r.end], r.next-r.start)
		r.next, r.seen = r.end, r.end
	}
	if r.start == r.next {
		return Event{}, r.err
	}
	return r.finish(e)
}

func (r *Reader) field(e *Event, line []byte, at int) {
	colon := bytes.IndexByte(line, ':')
	if colon == 0 {
		return // a comment
	}
	name, value := line, line[len(line):]
	if colon > 0 {
		name, value = line[:colon], line[colon+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	valueAt := at + len(line) - len(value)
	switch string(name) {
	case "data":
		e.Lines++
		switch e.Lines {
		case 1:
			e.At, e.dataLen = valueAt, len(value)
		case 2:
			r.join = append(r.join[:0], r.buf[r.start+e.At:][:e.dataLen]...)
			fallthrough
		default:
			r.join = append(append(r.join, '\n'), value...)
		}
	case "event":
		e.nameAt, e.nameLen = valueAt, len(value)
	}
}

func (r *Reader) finish(e *Event) (Event, error) {
	e.Raw = r.buf[r.start:r.next]
	if len(e.Raw) > r.max {
		r.err = ErrTooLarge
		r.start, r.next, r.seen = r.end, r.end, r.end
		return Event{}, ErrTooLarge
	}
	e.Name = e.Raw[e.nameAt:][:e.nameLen]
	switch e.Lines {
	case 0:
	case 1:
		e.Data = e.Raw[e.At:][:e.dataLen]
	default:
		e.Data = r.join
	}
	return *e, nil
}
