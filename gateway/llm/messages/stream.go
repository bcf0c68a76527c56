package messages

import (
	"strconv"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Decoder reads the events of a Messages stream that somebody else is to see.
type Decoder struct {
	ContextLimit int64

	d       decoder
	usage   llm.MessagesUsage
	calls   map[int64]int // tool call by the index of its block
	started bool
	finish  bool
	marker  bool
}

// NewDecoder returns a decoder.
func NewDecoder(contextLimit int64) *Decoder {
	return &Decoder{ContextLimit: contextLimit, calls: map[int64]int{}}
}

// event is what can stand in one event.
type event struct {
	kind, block, delta       string
	index                    int64
	id, name, text, thinking llm.Raw
	signature, data, partial llm.Raw
	stop                     string
	sequence                 llm.Raw
	messageID, input         llm.Raw
}

// Take reads the data of one event and emits what it brings.
func (s *Decoder) Take(_, data []byte, emit func(*llm.Event)) *llm.Error {
	if len(data) == 0 {
		return nil
	}
	var e event
	s.read(data, &e)
	if err := s.d.End(); err != nil {
		return llm.Malformed("a malformed event", err)
	}
	switch e.kind {
	case "error":
		if failed := llm.InBand(data); failed != nil {
			return failed
		}
		return llm.Malformed("an error event", nil)
	case "message_start":
		if !s.started {
			s.started = true
			emit(&llm.Event{Kind: llm.EventStart, ID: e.messageID})
		}
	case "content_block_start":
		s.begin(&e, emit)
	case "content_block_delta":
		s.delta(&e, emit)
	case "message_delta":
		if e.stop != "" {
			s.finish = true
			emit(&llm.Event{Kind: llm.EventFinish, Finish: finishOf(e.stop), Upstream: e.stop, Sequence: e.sequence})
		}
	case "message_stop":
		if !s.finish {
			return llm.Malformed("message_stop without any stop_reason", nil)
		}
		s.marker = true
	}
	return nil
}

func (s *Decoder) begin(e *event, emit func(*llm.Event)) {
	switch e.block {
	case "text":
		if llm.Filled(e.text) {
			emit(&llm.Event{Kind: llm.EventText, Text: e.text})
		}
	case "thinking":
		if llm.Filled(e.thinking) {
			emit(&llm.Event{Kind: llm.EventThinking, Text: e.thinking})
		}
	case "redacted_thinking":
		emit(&llm.Event{Kind: llm.EventRedacted, Text: e.data})
	case "tool_use":
		n := len(s.calls)
		s.calls[e.index] = n
		emit(&llm.Event{Kind: llm.EventCall, Index: n, ID: e.id, Name: e.name})
		if len(e.input) > len("{}") { // Anthropic sends it in pieces, others at once
			emit(&llm.Event{Kind: llm.EventArguments, Index: n, Text: jsonx.AppendString(nil, string(e.input))})
		}
	}
}

func (s *Decoder) delta(e *event, emit func(*llm.Event)) {
	piece := func(kind llm.EventKind, text llm.Raw) {
		if llm.Filled(text) {
			emit(&llm.Event{Kind: kind, Text: text})
		}
	}
	switch e.delta {
	case "text_delta":
		piece(llm.EventText, e.text)
	case "thinking_delta":
		piece(llm.EventThinking, e.thinking)
	case "signature_delta":
		piece(llm.EventSignature, e.signature)
	case "input_json_delta":
		if n, ok := s.calls[e.index]; ok && llm.Filled(e.partial) {
			emit(&llm.Event{Kind: llm.EventArguments, Index: n, Text: e.partial})
		}
	}
}

func (s *Decoder) read(data []byte, e *event) {
	d := &s.d
	d.ResetLoose(data)
	usage := func() {
		if raw := d.RawValue(); raw != nil {
			s.usage.Take(raw, s.ContextLimit)
		}
	}
	// Where a block and its delta name the same thing only one of the two is in an event.
	inner := func(kind *string) func(key []byte) {
		return func(key []byte) {
			switch string(key) {
			case "type":
				*kind = jsonx.RawText(d.RawString())
			case "id":
				e.id = d.RawString()
			case "name":
				e.name = d.RawString()
			case "text":
				e.text = d.RawString()
			case "thinking":
				e.thinking = d.RawString()
			case "signature":
				e.signature = d.RawString()
			case "data":
				e.data = d.RawString()
			case "input":
				e.input = d.RawValue()
			case "partial_json":
				e.partial = d.RawString()
			case "stop_reason":
				e.stop = jsonx.RawText(d.RawString())
			case "stop_sequence":
				e.sequence = d.RawString()
			}
		}
	}
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			e.kind = jsonx.RawText(d.RawString())
		case "index":
			e.index, _ = jsonx.Int64(d.Raw())
		case "message":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "id":
					e.messageID = d.RawString()
				case "usage":
					usage()
				}
			})
		case "usage":
			usage()
		case "content_block":
			d.EachField(inner(&e.block))
		case "delta":
			d.EachField(inner(&e.delta))
		}
	})
}

// Whole says whether the answer is complete.
func (s *Decoder) Whole() bool { return s.finish }

// Ended says whether nothing more of use can come.
func (s *Decoder) Ended() bool { return s.marker }

// Usage is what was reported so far.
func (s *Decoder) Usage() llm.Usage { return s.usage.Usage() }

// blockKind says what the open block holds.
type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
)

// Encoder writes the events of a stream for a client that speaks Messages. Text and reasoning have one
// open block; blocks of tool calls stay open until something else follows, since their pieces may come
// mixed.
type Encoder struct {
	stamp    llm.Stamp
	begun    bool
	open     blockKind
	next     int   // index of the next block
	calls    []int // open tool calls: index of the block, by index of the call
	firstNew int   // of calls: those before it are closed
	finish   llm.Finish
	sequence llm.Raw
}

// NewEncoder returns an encoder; usage always goes out on this surface.
func NewEncoder(s llm.Stamp, _ bool) *Encoder { return &Encoder{stamp: s} }

func (e *Encoder) opened(b []byte, id llm.Raw) []byte {
	if e.begun {
		return b
	}
	e.begun = true
	b = append(b, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
	b = append(appendID(b, id, e.stamp), `,"type":"message","role":"assistant"`...)
	b = jsonx.AddString(b, "model", e.stamp.Model)
	b = append(b, `,"content":[],"stop_reason":null,"stop_sequence":null`...)
	b = AppendUsage(b, &llm.Usage{}) // it is not known yet, and clients want the field
	return append(b, "}}\n\n"...)
}

// Append appends what the client sees of an event.
func (e *Encoder) Append(dst []byte, ev *llm.Event) []byte {
	switch ev.Kind {
	case llm.EventStart:
		return e.opened(dst, ev.ID)
	case llm.EventText, llm.EventRefusal:
		return e.piece(e.block(dst, textBlock, `{"type":"text","text":""}`), "text_delta", "text", ev.Text)
	case llm.EventThinking:
		return e.piece(e.block(dst, thinkingBlock, `{"type":"thinking","thinking":"","signature":""}`), "thinking_delta", "thinking", ev.Text)
	case llm.EventSignature:
		return e.piece(e.block(dst, thinkingBlock, `{"type":"thinking","thinking":"","signature":""}`), "signature_delta", "signature", ev.Text)
	case llm.EventRedacted:
		b := e.start(e.closed(e.opened(dst, nil)))
		b = append(jsonx.Add(append(b, `{"type":"redacted_thinking"`...), "data", ev.Text), "}}\n\n"...)
		return e.stop(b, e.next-1)
	case llm.EventCall:
		b := e.opened(dst, nil)
		if e.open != noBlock {
			b = e.closed(b)
		}
		b = e.start(b)
		b = jsonx.Add(append(b, `{"type":"tool_use"`...), "id", llm.NarrowCallID(ev.ID))
		b = append(jsonx.Add(b, "name", ev.Name), `,"input":{}}}`+"\n\n"...)
		e.calls = append(e.calls, e.next-1)
		return b
	case llm.EventArguments:
		if ev.Index < e.firstNew || ev.Index >= len(e.calls) {
			return dst
		}
		return e.deltaOf(dst, e.calls[ev.Index], "input_json_delta", "partial_json", ev.Text)
	case llm.EventImage:
		return e.piece(e.block(dst, textBlock, `{"type":"text","text":""}`), "text_delta", "text", leftOut(ev.Media))
	case llm.EventFinish:
		e.finish, e.sequence = ev.Finish, append(llm.Raw(nil), ev.Sequence...)
	}
	return dst
}

// block opens a block of that kind unless one is open.
func (e *Encoder) block(b []byte, kind blockKind, head string) []byte {
	if e.open == kind && e.firstNew == len(e.calls) {
		return b
	}
	b = e.start(e.closed(e.opened(b, nil)))
	e.open = kind
	return append(append(b, head...), "}\n\n"...)
}

func (e *Encoder) start(b []byte) []byte {
	b = append(b, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	b = appendInt(b, e.next)
	e.next++
	return append(b, `,"content_block":`...)
}

// closed ends every open block.
func (e *Encoder) closed(b []byte) []byte {
	if e.open != noBlock {
		e.open = noBlock
		b = e.stop(b, e.next-1)
	}
	for ; e.firstNew < len(e.calls); e.firstNew++ {
		b = e.stop(b, e.calls[e.firstNew])
	}
	return b
}

func (e *Encoder) stop(b []byte, index int) []byte {
	b = append(b, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	return append(appendInt(b, index), "}\n\n"...)
}

func (e *Encoder) piece(b []byte, kind, key string, text llm.Raw) []byte {
	return e.deltaOf(b, e.next-1, kind, key, text)
}

func (e *Encoder) deltaOf(b []byte, index int, kind, key string, text llm.Raw) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = append(appendInt(b, index), `,"delta":{"type":"`...)
	b = append(append(b, kind...), '"')
	return append(jsonx.Add(b, key, text), "}}\n\n"...)
}

// End appends the finish with the usage and the end marker, and says where metadata can be put in.
func (e *Encoder) End(dst []byte, u *llm.Usage) (out []byte, spliceAt int) {
	b := e.closed(e.opened(dst, nil))
	b = append(b, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
	b = jsonx.AddString(b, "stop_reason", Word(e.finish))
	if len(e.sequence) == 0 {
		e.sequence = nil
	}
	b = append(appendSequence(b, e.sequence), '}')
	b = AppendUsage(b, u)
	spliceAt = len(b)
	return append(b, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), spliceAt
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
