package openai

import (
	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/internal/jsonx"
)

// chunkParser reads the chunks of one stream and keeps the state of its choices.
type chunkParser struct {
	object
	cursor  jsonx.Cursor
	edits   jsonx.Edits
	choices []choiceState

	// Of the chunk read last:
	count    int    // elements of choices
	output   bool   // it holds output
	finished bool   // it holds a finish_reason
	first    string // the finish_reason of the stream's first choice, if it is in this chunk
	failed   []byte // a choice that the provider gave up

	data   []byte
	sealed []byte // of the stream, as provider.Result has it
}

type choiceState struct {
	index    int64
	finished bool
	calls    chat.Calls
}

// parse reads a chunk. The data must stay as it is until the edits are applied.
func (p *chunkParser) parse(data []byte) error {
	p.count, p.output, p.finished, p.first, p.failed = 0, false, false, "", nil
	p.edits = p.edits[:0]
	p.data = data
	p.cursor.ResetLoose(data)
	p.object.read(&p.cursor, "choices", p.readChoices)
	if err := p.cursor.End(); err != nil {
		return err
	}
	return nil
}

// whole says whether every choice seen has its finish_reason.
func (p *chunkParser) whole() bool {
	for i := range p.choices {
		if !p.choices[i].finished {
			return false
		}
	}
	return len(p.choices) > 0
}

func (p *chunkParser) anyFinished() bool {
	for i := range p.choices {
		if p.choices[i].finished {
			return true
		}
	}
	return false
}

func (p *chunkParser) readChoices() {
	c := &p.cursor
	if c.Kind() != jsonx.Array {
		return
	}
	for a := c.Array(); c.NextItem(&a); {
		p.count++
		if c.Kind() == jsonx.Object {
			p.readChoice(int64(a.Index))
		}
	}
}

// readChoice reads one choice; its index may stand behind its delta, so that is looked at first.
func (p *chunkParser) readChoice(position int64) {
	c := &p.cursor
	start := c.Pos()
	state := p.choice(position)
	reason := ""
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "delta", "message":
			p.readDelta(state)
		case "finish_reason":
			if c.Kind() == jsonx.String {
				reason = reasonWord(c.Text())
			}
		}
	}
	if reason == "" || c.Err() != nil {
		return
	}
	p.finished = true
	p.choices[state].finished = true
	if state == 0 {
		p.first = reason
	}
	if chat.Failed(reason) {
		p.failed = p.data[start:c.Pos()]
	}
}

// choice finds the state of the choice at the cursor without moving it.
func (p *chunkParser) choice(position int64) int {
	index := position
	peek := p.cursor
	for f := peek.Object(); peek.Next(&f); {
		if string(f.Key) == "index" {
			if n, ok := jsonx.Int64(peek.Raw()); ok {
				index = n
			}
			break
		}
	}
	for i := range p.choices {
		if p.choices[i].index == index {
			return i
		}
	}
	p.choices = append(p.choices, choiceState{index: index})
	return len(p.choices) - 1
}

// readDelta looks for output: any field but the role that is not empty.
func (p *chunkParser) readDelta(state int) {
	c := &p.cursor
	if c.Kind() != jsonx.Object {
		return
	}
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "role":
		case "reasoning_details", "thinking_blocks", "extra_content":
			p.note(f.Key)
			if p.filled() {
				p.output = true
			}
		case "tool_calls":
			if p.readCalls(state) {
				p.output = true
			}
		default:
			if p.filled() {
				p.output = true
			}
		}
	}
}

// note keeps what a field holds of reasoning that only its issuer can read, without moving the cursor.
func (p *chunkParser) note(field []byte) {
	peek := p.cursor
	if sealed := llm.Sealed(&peek, field); sealed != nil {
		p.sealed = append(p.sealed[:0], sealed...)
	}
}

// filled reads a value and says whether there is anything in it.
func (p *chunkParser) filled() bool {
	c := &p.cursor
	switch c.Kind() {
	case jsonx.Null, jsonx.Invalid:
		return false
	case jsonx.String:
		return !c.Text().Empty()
	case jsonx.Bool:
		return c.Bool()
	case jsonx.Number:
		return true
	}
	raw := c.Raw()
	for _, b := range raw[min(1, len(raw)):] {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b != '}' && b != ']'
		}
	}
	return false
}
