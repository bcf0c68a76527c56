package anthropic

import (
	"bytes"
	"net/http"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// seen is what the gateway looks at in an answer or the message of message_start.
type seen struct {
	model            jsonx.Field // its value; End 0: not there
	usage            llm.MessagesUsage
	content, isError bool
	stop             string
	sealed           []byte
	end              int // behind the closing brace
}

// message reads an object that is an answer, or the head of one.
func (s *seen) message(c *jsonx.Cursor, contextLimit int64) {
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			s.isError = s.isError || string(c.RawString()) == `"error"`
		case "error":
			s.isError = s.isError || c.RawValue() != nil
		case "model":
			at := c.Pos()
			if c.RawString() != nil {
				s.model = jsonx.Field{Value: at, End: c.Pos()}
			}
		case "usage":
			if raw := c.RawValue(); raw != nil {
				s.usage.Take(raw, contextLimit)
			}
		case "stop_reason":
			s.stop = jsonx.RawText(c.RawString())
		case "content":
			s.content = c.Kind() == jsonx.Array
			c.EachItem(func(int) { s.block(c) })
		}
	})
	s.end = c.Pos()
}

// block looks for reasoning that only its issuer can read.
func (s *seen) block(c *jsonx.Cursor) {
	var kind string
	var sealed []byte
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(c.RawString())
		case "signature", "data":
			sealed = c.RawString()
		}
	})
	if (kind == "thinking" || kind == "redacted_thinking") && len(sealed) > len(`""`) {
		s.sealed = append([]byte(nil), sealed...)
	}
}

// parseAnswer reads a whole plain answer; body is the caller's again afterwards.
func parseAnswer(call *provider.Call, body []byte, openEnded bool) (*provider.Answer, *llm.Error) {
	if problem := wire.NotJSON(body); problem != "" {
		return nil, provider.Unanswerable(http.StatusOK, problem)
	}
	var s seen
	var c jsonx.Cursor
	c.ResetLoose(body)
	s.message(&c, call.ContextLimit)
	if err := c.End(); err != nil {
		return nil, wire.BadAnswer(err, openEnded)
	}
	if s.isError {
		if e := llm.InBand(body); e != nil {
			return nil, e
		}
	}
	if !s.content {
		return nil, provider.Unanswerable(http.StatusOK, "an answer without content")
	}
	var edits jsonx.Edits
	s.rename(&edits, body, call.Model)
	out := wire.GetBuffer()
	*out = edits.Apply(*out, body)
	result := provider.Result{Status: http.StatusOK, FinishReason: s.stop, Output: true, Usage: s.usage.Usage(), Sealed: s.sealed}
	return provider.NewAnswer(*out, s.end-1+edits.Growth(), true, result, func() { wire.PutBuffer(out) }), nil
}

// rename puts the catalogue's id of the model in the place of the upstream's.
func (s *seen) rename(edits *jsonx.Edits, data []byte, model string) {
	if s.model.End == 0 {
		return
	}
	if name := jsonx.AppendString(nil, model); !bytes.Equal(name, data[s.model.Value:s.model.End]) {
		edits.Replace(s.model.Value, s.model.End, name)
	}
}
