package chat

import (
	"bytes"
	"slices"
	"strconv"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// Decoder reads the events of a chat stream that somebody else is to see.
type Decoder struct {
	ContextLimit int64

	d       decoder
	calls   Calls
	begun   []int64 // the index in which each call comes that was announced
	id      llm.Raw
	started bool
	finish  bool
	reason  string // of the chunk under way
	usage   llm.Usage
	marker  bool
	emit    func(*llm.Event)
}

// NewDecoder returns a decoder.
func NewDecoder(contextLimit int64) *Decoder {
	return &Decoder{ContextLimit: contextLimit, usage: llm.NoUsage()}
}

// Take reads the data of one event and emits what it brings.
func (s *Decoder) Take(_, data []byte, emit func(*llm.Event)) *llm.Error {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil
	}
	if string(data) == "[DONE]" {
		s.marker = true
		if !s.finish {
			return llm.Malformed("[DONE] without any finish_reason", nil)
		}
		return nil
	}
	s.emit = emit
	s.d.ResetLoose(data)
	failed := false
	s.d.EachField(func(key []byte) {
		switch string(key) {
		case "id":
			if id := s.d.RawString(); !s.started {
				s.started, s.id = true, bytes.Clone(id)
				emit(&llm.Event{Kind: llm.EventStart, ID: id})
			}
		case "choices":
			s.d.EachItem(func(i int) {
				if i == 0 {
					s.choice(&failed)
				}
			})
			if s.reason != "" { // behind the calls that may come with it
				emit(&llm.Event{Kind: llm.EventFinish, Finish: finishOf(s.reason, len(s.begun) > 0), Upstream: s.reason})
				s.reason = ""
			}
		case "usage":
			if raw := s.d.RawValue(); raw != nil {
				s.count(raw)
			}
		case "error":
			failed = failed || s.d.RawValue() != nil
		}
	})
	switch {
	case s.d.End() != nil:
		return llm.Malformed("a malformed chunk", s.d.Err())
	case failed:
		if e := llm.InBand(data); e != nil {
			return e
		}
		return &llm.Error{Class: attempt.UpstreamError, Status: 500, Message: `an answer that ended with finish_reason "error"`}
	}
	return nil
}

func (s *Decoder) count(raw []byte) {
	if u := llm.OpenAIUsage(raw, s.ContextLimit); u.Reported() {
		s.usage = u
	} else if u.Flag != "" {
		s.usage.Flag = u.Flag
	}
}

// Whole says whether the answer is complete.
func (s *Decoder) Whole() bool { return s.finish }

// Ended says whether nothing more of use can come.
func (s *Decoder) Ended() bool { return s.finish && (s.marker || s.usage.Reported()) }

// Usage is what was reported last.
func (s *Decoder) Usage() llm.Usage { return s.usage }

func (s *Decoder) choice(failed *bool) {
	s.d.EachField(func(key []byte) {
		switch string(key) {
		case "delta":
			s.delta()
		case "finish_reason":
			word := jsonx.RawText(s.d.RawString())
			switch {
			case Failed(word):
				*failed = true
			case word != "":
				s.finish, s.reason = true, word
			}
		}
	})
}

func (s *Decoder) delta() {
	piece := func(kind llm.EventKind) {
		if text := s.d.RawString(); llm.Filled(text) {
			s.emit(&llm.Event{Kind: kind, Text: text})
		}
	}
	thought := false
	s.d.EachField(func(key []byte) {
		switch string(key) {
		case "content":
			if s.d.Kind() != jsonx.Array {
				piece(llm.EventText)
				return
			}
			for _, p := range s.d.Content(s.d.piece) {
				switch {
				case p.Kind == llm.PartImage && p.Data != nil:
					s.emit(&llm.Event{Kind: llm.EventImage, Media: p.Media, Text: p.Data})
				case !llm.Filled(p.Text):
				case p.Kind == llm.PartThinking:
					s.emit(&llm.Event{Kind: llm.EventThinking, Text: p.Text})
				case p.Kind == llm.PartRefusal:
					s.emit(&llm.Event{Kind: llm.EventRefusal, Text: p.Text})
				case p.Kind == llm.PartText:
					s.emit(&llm.Event{Kind: llm.EventText, Text: p.Text})
				}
			}
		case "images":
			s.d.EachItem(func(int) {
				if p, ok := s.d.part(); ok && p.Data != nil {
					s.emit(&llm.Event{Kind: llm.EventImage, Media: p.Media, Text: p.Data})
				}
			})
		case "reasoning_content", "reasoning": // some send both
			if !thought {
				thought = true
				piece(llm.EventThinking)
			}
		case "refusal":
			piece(llm.EventRefusal)
		case "tool_calls":
			s.d.EachItem(func(int) { s.call() })
		}
	})
}

func (s *Decoder) call() {
	given := int64(-1)
	var id, name, arguments llm.Raw
	s.d.EachField(func(key []byte) {
		switch string(key) {
		case "index":
			if n, ok := jsonx.Int64(s.d.Raw()); ok && n >= 0 {
				given = n
			}
		case "id":
			id = s.d.RawString()
		case "function":
			s.d.EachField(func(key []byte) {
				switch string(key) {
				case "name":
					name = s.d.RawString()
				case "arguments":
					arguments = s.d.RawString()
				}
			})
		}
	})
	index := s.calls.Assign(given, jsonx.RawText(id), llm.Filled(name))
	n := slices.Index(s.begun, index) // some begin to count elsewhere, or begin with a later one
	if n < 0 && llm.Filled(name) {
		n = len(s.begun)
		s.begun = append(s.begun, index)
		if !llm.Filled(id) {
			id = llm.CallID(s.id, n)
		}
		s.emit(&llm.Event{Kind: llm.EventCall, Index: n, ID: id, Name: name})
	}
	if llm.Filled(arguments) && n >= 0 {
		s.emit(&llm.Event{Kind: llm.EventArguments, Index: n, Text: arguments})
	}
}

// Encoder writes the events of a stream for a client that speaks chat completions.
type Encoder struct {
	stamp  llm.Stamp
	asked  bool // for usage
	head   []byte
	role   bool
	finish llm.Finish
	argued []bool // by call: whether arguments came
	images int
}

// NewEncoder returns an encoder; asked says that the client wants the usage chunk.
func NewEncoder(s llm.Stamp, asked bool) *Encoder { return &Encoder{stamp: s, asked: asked} }

func (e *Encoder) begin(dst []byte, id llm.Raw) []byte {
	if e.head == nil {
		b := appendID([]byte(`data: {"id":`), id, e.stamp)
		b = append(b, `,"object":"chat.completion.chunk"`...)
		b = jsonx.AddInt(b, "created", e.stamp.Created)
		b = jsonx.AddString(b, "model", e.stamp.Model)
		e.head = append(b, `,"choices":[`...)
	}
	return append(dst, e.head...)
}

// Append appends what the client sees of an event.
func (e *Encoder) Append(dst []byte, ev *llm.Event) []byte {
	switch ev.Kind {
	case llm.EventStart:
		return e.opened(dst, ev.ID)
	case llm.EventText:
		return e.piece(dst, "content", ev.Text)
	case llm.EventThinking:
		return e.piece(dst, "reasoning_content", ev.Text)
	case llm.EventRefusal:
		return e.piece(dst, "refusal", ev.Text)
	case llm.EventCall:
		for len(e.argued) <= ev.Index {
			e.argued = append(e.argued, false)
		}
		b := e.delta(dst)
		b = append(b, `"tool_calls":[{"index":`...)
		b = appendInt(b, ev.Index)
		b = jsonx.Add(b, "id", ev.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = append(b, llm.OrEmpty(ev.Name)...)
		return append(b, `,"arguments":""}}]},"finish_reason":null}]}`+"\n\n"...)
	case llm.EventArguments:
		if ev.Index < len(e.argued) {
			e.argued[ev.Index] = true
		}
		return e.arguments(dst, ev.Index, ev.Text)
	case llm.EventImage:
		b := append(e.delta(dst), `"images":[`...)
		b = appendImage(b, &llm.Part{Media: ev.Media, Data: ev.Text}, e.images)
		e.images++
		return append(b, `]},"finish_reason":null}]}`+"\n\n"...)
	case llm.EventFinish:
		e.finish = ev.Finish
	}
	return dst
}

func (e *Encoder) arguments(dst []byte, index int, text llm.Raw) []byte {
	b := e.delta(dst)
	b = append(b, `"tool_calls":[{"index":`...)
	b = appendInt(b, index)
	b = append(b, `,"function":{"arguments":`...)
	b = append(b, text...)
	return append(b, `}}]},"finish_reason":null}]}`+"\n\n"...)
}

// opened appends the chunk with the role, once.
func (e *Encoder) opened(dst []byte, id llm.Raw) []byte {
	if e.role {
		return dst
	}
	e.role = true
	return append(e.begin(dst, id), `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"...)
}

func (e *Encoder) delta(dst []byte) []byte {
	return append(e.begin(e.opened(dst, nil), nil), `{"index":0,"delta":{`...)
}

func (e *Encoder) piece(dst []byte, key string, text llm.Raw) []byte {
	b := e.delta(dst)
	b = append(jsonx.AddKey(b, key), text...)
	return append(b, `},"finish_reason":null}]}`+"\n\n"...)
}

// End appends the finish, the usage if it was asked for, and the end marker, and says where metadata
// can be put in.
func (e *Encoder) End(dst []byte, u *llm.Usage) (out []byte, spliceAt int) {
	for i, argued := range e.argued {
		if !argued { // clients read them as JSON
			dst = e.arguments(dst, i, llm.Raw(`"{}"`))
		}
	}
	b := e.begin(e.opened(dst, nil), nil)
	b = append(jsonx.AddString(append(b, `{"index":0,"delta":{}`...), "finish_reason", Word(e.finish)), "}]"...)
	spliceAt = len(b)
	b = append(b, "}\n\n"...)
	if e.asked && u.Reported() {
		b = append(e.begin(b, nil), ']')
		b = AppendUsage(b, u)
		spliceAt = len(b)
		b = append(b, "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...), spliceAt
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
