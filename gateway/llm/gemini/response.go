package gemini

import (
	"errors"
	"fmt"
	"strings"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// ErrNoAnswer is returned for JSON that holds no answer.
var ErrNoAnswer = errors.New("an answer without candidates")

// finishOf is what a reason means; an answer that calls tools ends with STOP too.
func finishOf(word string, calls bool) llm.Finish {
	switch word {
	case "STOP":
		if calls {
			return llm.FinishTools
		}
		return llm.FinishStop
	case "MAX_TOKENS":
		return llm.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return llm.FinishFilter
	}
	return llm.FinishStop
}

// failed says whether a reason means that the model gave up on the answer: what there is of it is none.
func failed(word string) bool {
	switch word {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE",
		"IMAGE_OTHER", "OTHER":
		return true
	}
	return false
}

// chunk reads an answer, or a piece of one in a stream.
type chunk struct {
	jsonx.Cursor
	candidates int
	id         llm.Raw
	parts      []llm.Part
	finish     string
	blocked    string
	usage      llm.Usage
	failed     bool
}

func (c *chunk) read(data []byte, contextLimit int64) {
	c.ResetLoose(data)
	c.usage = llm.NoUsage()
	c.EachField(func(key []byte) {
		switch string(key) {
		case "responseId":
			c.id = c.RawString()
		case "candidates":
			c.EachItem(func(i int) {
				c.candidates++
				if i == 0 {
					c.candidate()
				}
			})
		case "promptFeedback":
			c.EachField(func(key []byte) {
				if string(key) == "blockReason" {
					c.blocked = jsonx.RawText(c.RawString())
				}
			})
		case "usageMetadata":
			if raw := c.RawValue(); raw != nil {
				c.usage = llm.GeminiUsage(raw, contextLimit)
			}
		case "error":
			c.failed = c.RawValue() != nil
		}
	})
}

func (c *chunk) candidate() {
	c.EachField(func(key []byte) {
		switch string(key) {
		case "finishReason":
			c.finish = jsonx.RawText(c.RawString())
		case "content":
			c.EachField(func(key []byte) {
				if string(key) == "parts" {
					c.EachItem(func(int) { c.part() })
				}
			})
		}
	})
}

func (c *chunk) part() {
	p := llm.Part{Kind: llm.PartText}
	c.EachField(func(key []byte) {
		switch string(key) {
		case "text":
			p.Text = c.RawString()
		case "thought":
			if c.Kind() == jsonx.Bool && c.Bool() {
				p.Kind, p.Data = llm.PartThinking, nil // a draft, if it is an image
			}
		case "inlineData":
			var media string
			var data llm.Raw
			c.EachField(func(key []byte) {
				switch string(key) {
				case "mimeType":
					media = jsonx.RawText(c.RawString())
				case "data":
					data = c.RawString()
				}
			})
			if llm.Filled(data) && strings.HasPrefix(media, "image/") && p.Kind != llm.PartThinking {
				p.Kind, p.Media, p.Data = llm.PartImage, media, data
			}
		case "functionCall":
			p.Kind, p.Input = llm.PartCall, llm.Raw("{}")
			c.EachField(func(key []byte) {
				switch string(key) {
				case "id":
					p.ID = c.RawString()
				case "name":
					p.Name = c.RawString()
				case "args":
					if args := c.RawValue(); args != nil {
						p.Input = args
					}
				}
			})
		}
	})
	switch last := len(c.parts) - 1; {
	case p.Kind == llm.PartCall || p.Kind == llm.PartImage:
		c.parts = append(c.parts, p)
	case !llm.Filled(p.Text):
	case last >= 0 && c.parts[last].Kind == p.Kind: // one text, in pieces
		text := c.parts[last].Text
		c.parts[last].Text = append(text[:len(text)-1:len(text)-1], p.Text[1:]...)
	default:
		c.parts = append(c.parts, p)
	}
}

// DecodeResponse reads a plain answer. contextLimit bounds what is believed of its usage.
func DecodeResponse(body []byte, contextLimit int64) (*llm.Response, error) {
	var c chunk
	c.read(body, contextLimit)
	if err := c.End(); err != nil {
		return nil, err
	}
	r := &llm.Response{ID: c.id, Parts: c.parts, Upstream: c.finish, Usage: c.usage}
	switch {
	case c.candidates == 0 && c.blocked == "":
		return nil, ErrNoAnswer
	case c.candidates == 0:
		r.Upstream, r.Finish = c.blocked, llm.FinishFilter
		return r, nil
	case failed(c.finish):
		return nil, fmt.Errorf("an answer that ended with finishReason %s", c.finish)
	}
	r.Finish = finishOf(c.finish, r.NameCalls())
	return r, nil
}

// Decoder reads the events of a stream that somebody else is to see.
type Decoder struct {
	ContextLimit int64

	started bool
	finish  bool
	calls   int
	id      llm.Raw
	usage   llm.Usage
}

// NewDecoder returns a decoder.
func NewDecoder(contextLimit int64) *Decoder {
	return &Decoder{ContextLimit: contextLimit, usage: llm.NoUsage()}
}

// Take reads the data of one event and emits what it brings.
func (s *Decoder) Take(_, data []byte, emit func(*llm.Event)) *llm.Error {
	if len(data) == 0 {
		return nil
	}
	var c chunk
	c.read(data, s.ContextLimit)
	switch err := c.End(); {
	case err != nil:
		return llm.Malformed("a malformed chunk", err)
	case c.failed:
		if e := llm.InBand(data); e != nil {
			return e
		}
		return llm.Malformed("an error event", nil)
	}
	if !s.started {
		s.started, s.id = true, append(llm.Raw(nil), c.id...)
		emit(&llm.Event{Kind: llm.EventStart, ID: c.id})
	}
	if c.usage.Reported() {
		s.usage = c.usage
	} else if c.usage.Flag != "" {
		s.usage.Flag = c.usage.Flag
	}
	for i := range c.parts {
		switch p := &c.parts[i]; p.Kind {
		case llm.PartThinking:
			emit(&llm.Event{Kind: llm.EventThinking, Text: p.Text})
		case llm.PartCall:
			id := p.ID
			if !llm.Filled(id) {
				id = llm.CallID(s.id, s.calls)
			}
			emit(&llm.Event{Kind: llm.EventCall, Index: s.calls, ID: id, Name: p.Name})
			emit(&llm.Event{Kind: llm.EventArguments, Index: s.calls, Text: jsonx.AppendString(nil, string(p.Input))})
			s.calls++
		case llm.PartImage:
			emit(&llm.Event{Kind: llm.EventImage, Media: p.Media, Text: p.Data})
		default:
			emit(&llm.Event{Kind: llm.EventText, Text: p.Text})
		}
	}
	switch {
	case failed(c.finish):
		return &llm.Error{Class: attempt.UpstreamError, Status: 500, Message: "an answer that ended with finishReason " + c.finish}
	case c.finish != "":
		s.finish = true
		emit(&llm.Event{Kind: llm.EventFinish, Finish: finishOf(c.finish, s.calls > 0), Upstream: c.finish})
	case c.candidates == 0 && c.blocked != "":
		s.finish = true
		emit(&llm.Event{Kind: llm.EventFinish, Finish: llm.FinishFilter, Upstream: c.blocked})
	}
	return nil
}

// Whole says whether the answer is complete.
func (s *Decoder) Whole() bool { return s.finish }

// Ended says whether nothing more of use can come: only the end of the stream says so.
func (s *Decoder) Ended() bool { return false }

// Usage is what was reported last.
func (s *Decoder) Usage() llm.Usage { return s.usage }
