package openai

import (
	"bytes"
	"net/http"
	"sync"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// object is what the gateway looks at in an answer or a chunk, by offsets into it.
type object struct {
	fields                             []jsonx.Field
	model, usage, metadata, turnout    int // index into fields, -1: not there
	end                                int // behind the closing brace
	isError                            bool
	usageKind, metadataKind, modelKind jsonx.Kind
}

// begin empties the object for the next document.
func (o *object) begin() {
	*o = object{fields: o.fields[:0], model: -1, usage: -1, metadata: -1, turnout: -1}
}

// read walks the top of a document. items is called with the cursor before the value of list, the
// field in which the answers stand.
func (o *object) read(c *jsonx.Cursor, list string, items func()) {
	o.begin()
	if c.Kind() != jsonx.Object {
		c.Skip()
		return
	}
	for f := c.Object(); c.Next(&f); {
		field := jsonx.Field{Key: f.KeyStart, Value: c.Pos()}
		nth := len(o.fields)
		switch string(f.Key) {
		case "choices", "data":
			if string(f.Key) == list {
				items()
			}
		case "model":
			o.model, o.modelKind = nth, c.Kind()
		case "usage":
			o.usage, o.usageKind = nth, c.Kind()
		case "metadata":
			o.metadata, o.metadataKind = nth, c.Kind()
		case "turnout":
			o.turnout = nth
		case "error":
			o.isError = o.isError || c.Kind() != jsonx.Null
		case "object", "type":
			if c.Kind() == jsonx.String && c.Text().Is("error") {
				o.isError = true
			}
		}
		if c.Pos() == field.Value {
			c.Skip()
		}
		field.End = c.Pos()
		o.fields = append(o.fields, field)
	}
	o.end = c.Pos()
}

// edit notes what every answer and chunk has changed: model, a metadata that is null, a turnout that is
// not ours, and usage if it is to be hidden. It reports whether the upstream's own metadata stays.
func (o *object) edit(edits *jsonx.Edits, data, model []byte, hideUsage bool) (ownMetadata bool) {
	if o.model >= 0 && (o.modelKind == jsonx.String || o.modelKind == jsonx.Null) {
		if f := o.fields[o.model]; !bytes.Equal(data[f.Value:f.End], model) {
			edits.Replace(f.Value, f.End, model)
		}
	}
	ownMetadata = o.metadata >= 0 && o.metadataKind != jsonx.Null
	dropMetadata := o.metadata >= 0 && !ownMetadata
	if dropMetadata || o.turnout >= 0 || hideUsage && o.usage >= 0 {
		edits.DeleteFields(o.fields, func(i int) bool {
			return dropMetadata && i == o.metadata || i == o.turnout || hideUsage && i == o.usage
		})
	}
	return ownMetadata
}

// answerParser reads plain answers, one at a time.
type answerParser struct {
	object
	cursor jsonx.Cursor
	edits  jsonx.Edits

	body   []byte
	count  int    // choices
	finish string // the first choice's finish_reason
	failed []byte // a choice that ended in an error
	sealed []byte // as provider.Result has it
}

var answerParsers = sync.Pool{New: func() any { return new(answerParser) }}

// parseAnswer reads a whole plain answer. openEnded: nothing but the end of the connection said where
// it ends. body is the caller's again afterwards.
func parseAnswer(call *provider.Call, body []byte, openEnded bool) (*provider.Answer, *llm.Error) {
	if problem := wire.NotJSON(body); problem != "" {
		return nil, provider.Unanswerable(http.StatusOK, problem)
	}
	p := answerParsers.Get().(*answerParser)
	defer func() {
		p.cursor.ResetLoose(nil)
		p.body, p.failed, p.sealed = nil, nil, nil
		answerParsers.Put(p)
	}()
	p.body, p.count, p.finish, p.failed = body, 0, "", nil
	p.edits = p.edits[:0]
	p.cursor.ResetLoose(body)
	p.object.read(&p.cursor, "choices", p.readChoices)
	if failure := p.problem(openEnded); failure != nil {
		return nil, failure
	}
	result := provider.Result{Status: http.StatusOK, FinishReason: p.finish, Output: true, Sealed: p.sealed}
	result.Usage.Source = attempt.UsageMissing
	if p.usage >= 0 && p.usageKind != jsonx.Null {
		f := p.fields[p.usage]
		result.Usage = llm.OpenAIUsage(body[f.Value:f.End], call.ContextLimit)
	}
	own := p.edit(&p.edits, body, jsonx.AppendString(nil, call.Model), false)
	out := wire.GetBuffer()
	*out = p.edits.Apply(*out, body)
	return provider.NewAnswer(*out, p.end-1+p.edits.Growth(), own, result, func() { wire.PutBuffer(out) }), nil
}

func (p *answerParser) readChoices() {
	c := &p.cursor
	if c.Kind() != jsonx.Array {
		return
	}
	for a := c.Array(); c.NextItem(&a); {
		p.count++
		start := c.Pos()
		reason := p.choice()
		if a.Index == 0 {
			p.finish = reason
		}
		if chat.Failed(reason) && c.Err() == nil {
			p.failed = p.body[start:c.Pos()]
		}
	}
}

// problem says why what was read is no answer; nil if it is one.
func (p *answerParser) problem(openEnded bool) *llm.Error {
	if err := p.cursor.End(); err != nil {
		if openEnded && err.Truncated() {
			return provider.Cut("the answer broke off", err)
		}
		return &llm.Error{Class: attempt.UpstreamError, Status: http.StatusOK, Message: "an answer that is no valid JSON", Cause: err}
	}
	if p.isError {
		if e := llm.InBand(p.body); e != nil {
			return e
		}
	}
	switch {
	case p.count == 0:
		return provider.Unanswerable(http.StatusOK, "an answer without choices")
	case p.failed != nil:
		return choiceError(p.failed)
	}
	return nil
}

// choice reads one choice.
func (p *answerParser) choice() (reason string) {
	c := &p.cursor
	c.EachField(func(key []byte) {
		switch string(key) {
		case "finish_reason":
			if c.Kind() == jsonx.String {
				reason = reasonWord(c.Text())
			}
		case "message":
			c.EachField(func(key []byte) {
				p.note(llm.Sealed(c, key))
				if string(key) == "tool_calls" {
					c.EachItem(func(int) {
						c.EachField(func(key []byte) { p.note(llm.Sealed(c, key)) })
					})
				}
			})
		}
	})
	return reason
}

// note keeps reasoning that only its issuer can read.
func (p *answerParser) note(sealed []byte) {
	if sealed != nil {
		p.sealed = bytes.Clone(sealed)
	}
}

// reasonWord avoids an allocation for the words everybody uses.
func reasonWord(t jsonx.Text) string {
	for _, word := range [...]string{"stop", "length", "tool_calls", "content_filter", "error"} {
		if t.Is(word) {
			return word
		}
	}
	return t.String()
}

// choiceError is the failure of a choice that the provider gave up, by the error beside it.
func choiceError(choice []byte) *llm.Error {
	if e := llm.InBand(choice); e != nil {
		return e
	}
	return &llm.Error{Class: attempt.UpstreamError, Status: http.StatusInternalServerError, Message: "an answer that the provider gave up"}
}
