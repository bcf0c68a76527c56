package bedrock

import (
	"bytes"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Exception is what the name of an event begins with that is a failure; behind it stands its type.
const Exception = "exception:"

// Decoder reads the events of a stream that somebody else is to see.
type Decoder struct {
	ContextLimit int64

	d       reader
	started bool
	finish  bool
	ended   bool
	calls   map[int64]int // tool call by the index of its block
	usage   llm.Usage
}

// NewDecoder returns a decoder.
func NewDecoder(contextLimit int64) *Decoder {
	return &Decoder{ContextLimit: contextLimit, calls: map[int64]int{}, usage: llm.NoUsage()}
}

// event is what can stand in one event.
type event struct {
	index                                      int64
	tool                                       bool // a tool call begins
	id, name, text, input                      llm.Raw
	thinking, signature, redacted, stop, usage llm.Raw
	sequence                                   llm.Raw
}

// Take reads one event and emits what it brings. Events of names yet to come bring nothing.
func (s *Decoder) Take(name, data []byte, emit func(*llm.Event)) *llm.Error {
	if kind, failed := bytes.CutPrefix(name, []byte(Exception)); failed {
		return llm.ClassifyNamed(0, string(kind), data)
	}
	var e event
	s.read(data, &e)
	if err := s.d.End(); err != nil {
		return llm.Malformed("a malformed event", err)
	}
	if !s.started {
		s.started = true
		emit(&llm.Event{Kind: llm.EventStart})
	}
	switch string(name) {
	case "contentBlockStart":
		if e.tool {
			n := len(s.calls)
			s.calls[e.index] = n
			emit(&llm.Event{Kind: llm.EventCall, Index: n, ID: llm.OrEmpty(e.id), Name: llm.OrEmpty(e.name)})
		}
	case "contentBlockDelta":
		s.delta(&e, emit)
	case "messageStop":
		word := jsonx.RawText(e.stop)
		switch {
		case word == "":
			return llm.Malformed("messageStop without a stopReason", nil)
		case broken(word):
			return llm.Malformed("an answer that ended in "+word, nil)
		}
		if !s.finish {
			s.finish = true
			emit(&llm.Event{Kind: llm.EventFinish, Finish: finishOf(word, len(s.calls)), Upstream: word, Sequence: e.sequence})
		}
	case "metadata":
		if e.usage != nil {
			s.usage = usageOf(e.usage, s.ContextLimit)
		}
		s.ended = s.finish
	}
	return nil
}

func (s *Decoder) delta(e *event, emit func(*llm.Event)) {
	piece := func(kind llm.EventKind, text llm.Raw) {
		if llm.Filled(text) {
			emit(&llm.Event{Kind: kind, Text: text})
		}
	}
	piece(llm.EventThinking, e.thinking)
	piece(llm.EventSignature, e.signature)
	piece(llm.EventRedacted, e.redacted)
	piece(llm.EventText, e.text)
	if n, ok := s.calls[e.index]; ok && llm.Filled(e.input) {
		emit(&llm.Event{Kind: llm.EventArguments, Index: n, Text: e.input})
	}
}

func (s *Decoder) read(data []byte, e *event) {
	d := &s.d
	d.ResetLoose(data)
	tool := func(key []byte) {
		switch string(key) {
		case "toolUseId":
			e.id = d.RawString()
		case "name":
			e.name = d.RawString()
		case "input":
			e.input = d.RawString()
		}
	}
	d.EachField(func(key []byte) {
		switch string(key) {
		case "contentBlockIndex":
			e.index, _ = jsonx.Int64(d.Raw())
		case "start":
			d.EachField(func(key []byte) {
				if string(key) == "toolUse" {
					e.tool = true
					d.EachField(tool)
				}
			})
		case "delta":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "text":
					e.text = d.RawString()
				case "toolUse":
					d.EachField(tool)
				case "reasoningContent":
					d.EachField(func(key []byte) {
						switch string(key) {
						case "text":
							e.thinking = d.RawString()
						case "signature":
							e.signature = d.RawString()
						case "redactedContent":
							e.redacted = d.RawString()
						}
					})
				}
			})
		case "stopReason":
			e.stop = d.RawString()
		case "additionalModelResponseFields":
			e.sequence = d.sequence()
		case "usage":
			e.usage = d.RawValue()
		}
	})
}

// Whole says whether the answer is complete.
func (s *Decoder) Whole() bool { return s.finish }

// Ended says whether nothing more of use can come: usage comes behind the finish.
func (s *Decoder) Ended() bool { return s.ended }

// Usage is what was reported.
func (s *Decoder) Usage() llm.Usage { return s.usage }
