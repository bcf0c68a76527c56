package openai

import (
	"strconv"

	"turnout/internal/jsonx"
)

// callIndexes keeps the tool calls of a choice apart whose deltas carry no index, or 0 on all of them
// (api.md, "Streams" 10). Indexes that are right are not touched.
type callIndexes struct {
	ids     []string // by the index the client sees; "" unknown
	current int      // the call that deltas without an id belong to
	right   bool     // an index above 0 was seen: the upstream counts
}

// assign gives the index a delta belongs under. given is -1 where it has none; starts says that it names
// a function.
func (t *callIndexes) assign(given int64, id string, starts bool) int64 {
	if given > 0 || given == 0 && t.right {
		t.right = true
		return given
	}
	switch {
	case len(t.ids) == 0:
		t.ids = append(t.ids, id)
		t.current = 0
	case id != "":
		t.current = t.find(id, given < 0)
	case given < 0 && starts && t.ids[t.current] == "":
		t.ids = append(t.ids, "")
		t.current = len(t.ids) - 1
	}
	return int64(t.current)
}

// find returns the index of the call with that id, a new one if there is none. The first call may have
// begun without its id.
func (t *callIndexes) find(id string, missing bool) int {
	for i, known := range t.ids {
		if known == id {
			return i
		}
	}
	if t.ids[t.current] == "" && !missing {
		t.ids[t.current] = id
		return t.current
	}
	t.ids = append(t.ids, id)
	return len(t.ids) - 1
}

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

func (p *chunkParser) readCall(calls *callIndexes) {
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
				id = calls.intern(c.Text())
			}
		case "function":
			starts = p.named()
		}
	}
	if c.Err() != nil {
		return
	}
	index := calls.assign(given, id, starts)
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

// intern spares the allocation for an id that is known.
func (t *callIndexes) intern(id jsonx.Text) string {
	for _, known := range t.ids {
		if known != "" && id.Is(known) {
			return known
		}
	}
	return id.String()
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
