package openai

import (
	"strconv"

	"turnout/gateway/llm/chat"
	"turnout/internal/jsonx"
)

// readCalls reads a delta's tool_calls, notes the edits of their indexes, and says whether there are any.
func (p *chunkParser) readCalls(state int) bool {
	c := &p.cursor
	if c.Kind() != jsonx.Array {
		return false
	}
	any := false
	for a := c.Array(); c.NextItem(&a); {
		any = true
		if c.Kind() == jsonx.Object {
			p.readCall(&p.choices[state].calls)
		}
	}
	return any
}

func (p *chunkParser) readCall(calls *chat.Calls) {
	c := &p.cursor
	open := c.Pos() + 1
	given, valueStart, valueEnd, fields := int64(-1), -1, -1, 0
	id, starts := "", false
	for f := c.Object(); c.Next(&f); {
		fields++
		switch string(f.Key) {
		case "index":
			valueStart = c.Pos()
			if n, ok := jsonx.Int64(c.Raw()); ok && n >= 0 {
				given = n
			}
			valueEnd = c.Pos()
		case "id":
			if c.Kind() == jsonx.String {
				id = calls.Intern(c.Text())
			}
		case "function":
			starts = p.named()
		case "extra_content":
			p.note(f.Key)
		}
	}
	if c.Err() != nil {
		return
	}
	index := calls.Assign(given, id, starts)
	if index == given {
		return
	}
	number := strconv.AppendInt(nil, index, 10)
	switch {
	case valueStart >= 0:
		p.edits.Replace(valueStart, valueEnd, number)
	case fields == 0:
		p.edits.Insert(open, append([]byte(`"index":`), number...))
	default:
		p.edits.Insert(open, append(append([]byte(`"index":`), number...), ','))
	}
}

// named reads a function and says whether it has a name.
func (p *chunkParser) named() (named bool) {
	c := &p.cursor
	if c.Kind() != jsonx.Object {
		return false
	}
	for f := c.Object(); c.Next(&f); {
		if string(f.Key) == "name" {
			named = p.filled()
		}
	}
	return named
}
