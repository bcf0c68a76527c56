package bedrock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm/bedrock"
	"turnout/internal/jsonx"
)

// A frame is its length, the length of its headers, the checksum of both, headers, payload, and the
// checksum of all.
const (
	prelude  = 12
	overhead = prelude + 4
	maxText  = 64 << 10 // what is read of an answer that is no stream
)

// frames is a wire.Events of AWS's event stream. A length is believed once its checksum was seen, so
// that a broken one is not waited for.
type frames struct {
	r          io.Reader
	buf        []byte
	start, end int // of what was read and not yet returned
	begun      bool
	err        error // sticks
	decoder    *eventstream.Decoder
	one        bytes.Reader
	payload    []byte
	name       []byte
}

func newFrames(r io.Reader) *frames {
	return &frames{r: r, buf: make([]byte, 4<<10), decoder: eventstream.NewDecoder()}
}

// Release implements wire.Events.
func (f *frames) Release() { f.buf = nil }

// Next implements wire.Events.
func (f *frames) Next() (sse.Event, error) {
	if !f.begun {
		for f.err == nil && f.start == f.end {
			f.fill()
		}
		f.begun = true
		if f.end > f.start && (f.buf[f.start] == '{' || f.buf[f.start] == '[' || f.buf[f.start] == '<') {
			return f.text()
		}
	}
	for {
		length, err := f.whole()
		switch {
		case err != nil:
			f.err, f.start = err, f.end
			return sse.Event{}, err
		case length > 0:
			return f.decode(length)
		case f.err != nil:
			return sse.Event{}, f.err
		}
		f.fill()
	}
}

// Buffered implements wire.Events.
func (f *frames) Buffered() bool {
	length, err := f.whole()
	return length > 0 && err == nil
}

// whole is the length of the frame that begins the buffer, 0 if it is not there as a whole yet.
func (f *frames) whole() (int, error) {
	b := f.buf[f.start:f.end]
	if len(b) < prelude {
		return 0, nil
	}
	length, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		return 0, fmt.Errorf("%w: the checksum of its lengths does not match", wire.ErrFraming)
	case length > sse.MaxEvent:
		return 0, sse.ErrTooLarge
	case length < overhead || headers > length-overhead:
		return 0, fmt.Errorf("%w: its lengths cannot be", wire.ErrFraming)
	case len(b) < int(length):
		return 0, nil
	}
	return int(length), nil
}

// fill reads more, after making room.
func (f *frames) fill() {
	if f.end == len(f.buf) {
		if f.start > 0 {
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		} else {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
	}
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	if err != nil {
		f.err = err
	}
}

func (f *frames) decode(length int) (sse.Event, error) {
	raw := f.buf[f.start : f.start+length]
	f.start += length
	f.one.Reset(raw)
	m, err := f.decoder.Decode(&f.one, f.payload[:0])
	if err != nil {
		f.err, f.start = fmt.Errorf("%w: %w", wire.ErrFraming, err), f.end
		return sse.Event{}, f.err
	}
	if m.Payload != nil {
		f.payload = m.Payload
	}
	e := sse.Event{Raw: raw, Data: m.Payload, Lines: 1, Whole: true}
	text := func(header string) string {
		v, _ := m.Headers.Get(header).(eventstream.StringValue)
		return string(v)
	}
	switch text(":message-type") {
	case "event":
		f.name = append(f.name[:0], text(":event-type")...)
	case "exception":
		f.name = append(append(f.name[:0], bedrock.Exception...), text(":exception-type")...)
	case "error": // one that the service has no shape for
		f.name = append(append(f.name[:0], bedrock.Exception...), text(":error-code")...)
		e.Data = append(jsonx.AddString([]byte{'{'}, "message", text(":error-message")), '}')
	default:
		f.err, f.start = fmt.Errorf("%w: a message that is neither event nor exception", wire.ErrFraming), f.end
		return sse.Event{}, f.err
	}
	e.Name = f.name
	return e, nil
}

// text is what came instead of a stream, as an event without data.
func (f *frames) text() (sse.Event, error) {
	for f.err == nil && f.end-f.start < maxText {
		f.fill()
	}
	raw := f.buf[f.start:f.end]
	f.start = f.end
	if f.err == nil || errors.Is(f.err, io.EOF) {
		f.err = fmt.Errorf("%w: text", wire.ErrFraming)
	}
	return sse.Event{Raw: raw}, nil
}
