package bedrock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/bedrock"
)

// read lists what a stream brings, with its error.
func read(r io.Reader) (events []string, err error) {
	f := newFrames(r)
	defer f.Release()
	for range 10_000 {
		e, err := f.Next()
		if err != nil {
			if _, again := f.Next(); again == nil || again.Error() != err.Error() {
				return nil, fmt.Errorf("after %w came %v", err, again)
			}
			return events, err
		}
		if e.Lines == 0 {
			events = append(events, "text "+string(e.Raw))
			continue
		}
		events = append(events, string(e.Name)+" "+string(e.Data))
	}
	return nil, errors.New("no end")
}

// shaped is a frame with any lengths and right checksums, filled up to its length as far as that is small.
func shaped(length, headers uint32) string {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = binary.BigEndian.AppendUint32(b, headers)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	for len(b)+4 < int(min(length, 4096)) {
		b = append(b, 0)
	}
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func TestFrames(t *testing.T) {
	start, text := named("messageStart", `{"role":"assistant"}`), named("contentBlockDelta", `{"delta":{"text":"Hé"}}`)
	long := named("contentBlockDelta", strings.Repeat("x", 100_000))
	for name, tc := range map[string]struct {
		in   string
		want []string
		err  error
	}{
		"events":                {start + text, []string{`messageStart {"role":"assistant"}`, `contentBlockDelta {"delta":{"text":"Hé"}}`}, io.EOF},
		"nothing":               {"", nil, io.EOF},
		"a long one":            {long + start, []string{"contentBlockDelta " + strings.Repeat("x", 100_000), `messageStart {"role":"assistant"}`}, io.EOF},
		"an exception":          {exception("throttlingException", "slow"), []string{`exception:throttlingException {"message":"slow"}`}, io.EOF},
		"an error without form": {frame("", ":message-type", "error", ":error-code", "InternalError", ":error-message", `a "b"`), []string{`exception:InternalError {"message":"a \"b\""}`}, io.EOF},
		"an empty payload":      {named("ping", ""), []string{"ping "}, io.EOF},
		"no type":               {start + frame("{}"), []string{`messageStart {"role":"assistant"}`}, wire.ErrFraming},
		"an unknown type":       {frame("{}", ":message-type", "initial-response"), nil, wire.ErrFraming},
		"too large":             {start + shaped(sse.MaxEvent+1, 0), []string{`messageStart {"role":"assistant"}`}, sse.ErrTooLarge},
		"huge":                  {shaped(1<<32-1, 0), nil, sse.ErrTooLarge},
		"too short":             {shaped(15, 0), nil, wire.ErrFraming},
		"headers beyond it":     {shaped(32, 17), nil, wire.ErrFraming},
		"headers that overflow": {shaped(20, 1<<32-1), nil, wire.ErrFraming},
		"headers of nothing":    {shaped(64, 48), nil, wire.ErrFraming},
		"a stream of text":      {"data: {}\n\n0123456789", nil, wire.ErrFraming},
		"JSON":                  {` {"a":1}`[1:], []string{`text {"a":1}`}, wire.ErrFraming},
		"HTML":                  {"<html>" + strings.Repeat(" ", 2*maxText), nil, nil},
	} {
		if name == "HTML" {
			f := newFrames(strings.NewReader(tc.in))
			if e, err := f.Next(); err != nil || e.Lines != 0 || len(e.Raw) < maxText || len(e.Raw) > 4*maxText {
				t.Errorf("HTML: %d bytes, %v", len(e.Raw), err)
			}
			continue
		}
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(tc.in), "by bytes": iotest.OneByteReader(strings.NewReader(tc.in)), "with its end": iotest.DataErrReader(strings.NewReader(tc.in))} {
			events, err := read(r)
			if !slices.Equal(events, tc.want) || !errors.Is(err, tc.err) {
				t.Errorf("%s, %s: %.200q %v, want %.200q %v", name, how, events, err, tc.want, tc.err)
			}
		}
	}
}

// A stream that is cut in a frame ends as its connection did, wherever that is; a byte that is not what
// was sent is told from it.
func TestCutAndBrokenFrames(t *testing.T) {
	start, text := named("messageStart", `{"role":"assistant"}`), named("contentBlockDelta", `{"delta":{"text":"Hi"}}`)
	for n := range len(text) {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			events, err := read(io.MultiReader(strings.NewReader(start+text[:n]), iotest.ErrReader(end)))
			if len(events) != 1 || !errors.Is(err, end) {
				t.Errorf("cut at %d: %q %v", n, events, err)
			}
		}
		broken := []byte(start + text)
		broken[len(start)+n] ^= 1
		// It is known without waiting for what a broken length would promise: nothing more is read.
		events, err := read(io.MultiReader(bytes.NewReader(broken), iotest.ErrReader(errors.New("waited"))))
		if len(events) != 1 || !errors.Is(err, wire.ErrFraming) {
			t.Errorf("byte %d flipped: %q %v", n, events, err)
		}
	}
}

func TestBuffered(t *testing.T) {
	one := named("ping", "{}")
	f := newFrames(strings.NewReader(one + one + one[:20]))
	defer f.Release()
	for _, want := range []bool{true, false} {
		if _, err := f.Next(); err != nil || f.Buffered() != want {
			t.Errorf("buffered %v %v, want %v", f.Buffered(), err, want)
		}
	}
}

// Frames are read into a buffer that is used again, however long the stream is.
func TestFramesDoNotGrow(t *testing.T) {
	one := named("contentBlockDelta", `{"delta":{"text":"`+strings.Repeat("x", 8000)+`"}}`)
	f := newFrames(strings.NewReader(strings.Repeat(one, 500)))
	defer f.Release()
	for {
		if _, err := f.Next(); err != nil {
			break
		}
	}
	if cap(f.buf) > 64<<10 {
		t.Errorf("the buffer has grown to %d bytes", cap(f.buf))
	}
}

// FuzzFrames: whatever comes as a stream becomes events or an error, and never more than was sent.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(named("messageStart", `{"role":"assistant"}`) + named("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"x"}}`) + named("messageStop", `{"stopReason":"end_turn"}`) + named("metadata", `{"usage":{"inputTokens":1,"outputTokens":2}}`)))
	f.Add([]byte(named("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"b"}}}`) + named("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{"}}}`) + exception("modelStreamErrorException", "x")))
	f.Add([]byte(shaped(64, 48)))
	f.Add([]byte(shaped(1<<31, 9)))
	f.Add([]byte(`{"message":"x"}`))
	var raw bytes.Buffer // every kind of header value
	headers := eventstream.Headers{}
	headers.Set(":message-type", eventstream.StringValue("event"))
	headers.Set("a", eventstream.Int64Value(3))
	headers.Set("b", eventstream.BytesValue("x"))
	headers.Set("c", eventstream.UUIDValue{1})
	headers.Set("d", eventstream.BoolValue(true))
	if err := eventstream.NewEncoder().Encode(&raw, eventstream.Message{Headers: headers, Payload: []byte("{}")}); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		// Twice: as it is, and with the checksums set right, so that what is behind them is reached.
		for _, b := range [][]byte{in, mended(bytes.Clone(in))} {
			frames, decoder := newFrames(bytes.NewReader(b)), bedrock.NewDecoder(0)
			sent := 0
			for {
				e, err := frames.Next()
				if err != nil {
					break
				}
				if sent += len(e.Raw); sent > len(b) {
					t.Fatalf("%d bytes of events out of %d", sent, len(b))
				}
				if e.Lines == 0 {
					continue
				}
				if failure := decoder.Take(e.Name, e.Data, func(*llm.Event) {}); failure != nil && failure.Message == "" {
					t.Fatalf("a failure without words: %+v", failure)
				}
			}
			frames.Release()
		}
	})
}

// mended puts the right checksums into what may be frames.
func mended(b []byte) []byte {
	for rest := b; len(rest) >= overhead; {
		binary.BigEndian.PutUint32(rest[8:], crc32.ChecksumIEEE(rest[:8]))
		n := int(binary.BigEndian.Uint32(rest))
		if n < overhead || n > len(rest) {
			break
		}
		binary.BigEndian.PutUint32(rest[n-4:], crc32.ChecksumIEEE(rest[:n-4]))
		rest = rest[n:]
	}
	return b
}
