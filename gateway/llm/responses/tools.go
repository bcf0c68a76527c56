package responses

import (
	"bytes"
	"unicode/utf8"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Responses has tools that take a text, namespaces of tools, and a search for tools that the client runs.
// Elsewhere all of them are functions; calls of them are told in the client's words again.

var searchName = llm.Raw(`"tool_search"`)

// freeformSchema is what a tool that takes a text takes where it is a function.
const freeformSchema = `{"type":"object","properties":{"input":{"type":"string","description":"The text itself."}},"required":["input"],"additionalProperties":false}`

// wrapped are the arguments by freeformSchema.
func wrapped(text llm.Raw) llm.Raw {
	return append(append(llm.Raw(`{"input":`), llm.OrEmpty(text)...), '}')
}

// unwrapped is the text in such arguments; what a model wrote that are none is the text itself.
func unwrapped(arguments []byte) llm.Raw {
	var c jsonx.Cursor
	c.ResetLoose(arguments)
	var text []byte
	c.EachField(func(key []byte) {
		if string(key) == "input" {
			text = c.RawString()
		}
	})
	if c.End() != nil || text == nil {
		return jsonx.AppendString(nil, string(arguments))
	}
	return jsonx.AppendString(nil, jsonx.RawText(text))
}

// flat is a tool's name where there are no namespaces.
func flat(space, name llm.Raw) llm.Raw {
	if !llm.Filled(space) || name == nil {
		return name
	}
	return append(append(bytes.Clone(space[:len(space)-1]), "__"...), name[1:]...)
}

// distinct leaves out tools that come again: a search may find what was offered before. The last says
// what it is.
func distinct(tools []llm.Tool) []llm.Tool {
	at := make(map[string]int, len(tools))
	kept := tools[:0]
	for _, t := range tools {
		name := jsonx.RawText(t.Name)
		if i, again := at[name]; again {
			kept[i] = t
			continue
		}
		at[name] = len(kept)
		kept = append(kept, t)
	}
	return kept
}

func orEmptyObject(raw llm.Raw) llm.Raw {
	if jsonx.KindOf(raw) == jsonx.Object {
		return raw
	}
	return llm.Raw("{}")
}

func (d *decoder) tool() {
	at, before := d.Pos(), len(d.Request.Tools)
	var kind, grammar string
	var t llm.Tool
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "name":
			t.Own = d.RawString()
		case "description":
			t.Description = d.RawString()
		case "parameters":
			t.Schema = d.RawValue()
		case "strict":
			t.Strict = d.RawValue()
		case "format":
			grammar = d.grammar()
		case "tools":
			d.EachItem(func(int) { d.tool() })
		}
	})
	switch kind {
	case "function":
	case "custom":
		t.Kind, t.Schema, t.Strict = llm.ToolFreeform, llm.Raw(freeformSchema), nil
		if grammar != "" {
			t.Description = jsonx.AppendString(nil, jsonx.RawText(t.Description)+grammar)
		}
	case "tool_search":
		t.Kind, t.Own = llm.ToolSearch, searchName
	case "namespace":
		for i := before; i < len(d.Request.Tools); i++ {
			inner := &d.Request.Tools[i]
			if inner.Space != nil {
				d.Refuse(at, "holds another namespace, which this provider's protocol cannot say")
			}
			inner.Space, inner.Name = t.Own, flat(t.Own, inner.Own)
		}
		return
	default:
		d.Refuse(at, "is a tool of OpenAI's own, which this provider's protocol cannot say: use functions, custom tools and namespaces of them")
		return
	}
	t.Name = t.Own
	d.Request.Tools = append(d.Request.Tools, t)
}

// grammar reads the format of a custom tool and puts its rules in words; "" where any text will do.
func (d *decoder) grammar() string {
	var kind, syntax, definition string
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "syntax":
			syntax = jsonx.RawText(d.RawString())
		case "definition":
			definition = jsonx.RawText(d.RawString())
		}
	})
	if kind != "grammar" {
		return ""
	}
	return "\n\nThe text must follow this grammar (" + syntax + "):\n" + definition
}

// unwrapping makes text of arguments by freeformSchema while they come in pieces.
type unwrapping struct {
	pending []byte // of the arguments' JSON, not yet told
	state   uint8
}

const (
	unwrapHead = iota // before the text
	unwrapText
	unwrapDone
)

var unwrapKeys = [...]string{"{", `"input"`, ":", `"`}

// take returns what a piece of arguments, a string, adds to the text, or nil.
func (u *unwrapping) take(piece llm.Raw) llm.Raw {
	if u.state == unwrapDone {
		return nil
	}
	u.pending = append(u.pending, jsonx.RawText(piece)...)
	if u.state == unwrapHead {
		n, ok := skipHead(u.pending)
		if !ok {
			return nil
		}
		u.pending, u.state = u.pending[n:], unwrapText
	}
	n, whole := wholeText(u.pending)
	told := append(append(llm.Raw{'"'}, u.pending[:n]...), '"')
	u.pending = u.pending[n:]
	if whole {
		u.state = unwrapDone
	}
	if n == 0 {
		return nil
	}
	return jsonx.AppendString(nil, jsonx.RawText(told))
}

// rest returns what remains when the arguments have ended: all of them where they are of another form.
func (u *unwrapping) rest() llm.Raw {
	if u.state != unwrapHead || len(u.pending) == 0 {
		return nil
	}
	return unwrapped(u.pending)
}

// skipHead is the length of what stands before the text, once it is there.
func skipHead(b []byte) (n int, ok bool) {
	for _, key := range unwrapKeys {
		for n < len(b) && (b[n] == ' ' || b[n] == '\n' || b[n] == '\t' || b[n] == '\r') {
			n++
		}
		if !bytes.HasPrefix(b[n:], []byte(key)) {
			return 0, false
		}
		n += len(key)
	}
	return n, true
}

// wholeText is how much of a string's inside can be told: up to its end, and no half escape, no half of
// a surrogate pair and no half character.
func wholeText(b []byte) (n int, whole bool) {
	for n < len(b) {
		switch {
		case b[n] == '"':
			return n, true
		case b[n] == '\\':
			size := escapeSize(b[n:])
			if size == 0 {
				return n, false
			}
			n += size
		default:
			if !utf8.FullRune(b[n:]) {
				return n, false
			}
			_, size := utf8.DecodeRune(b[n:])
			n += size
		}
	}
	return n, false
}

// escapeSize is the length of the escape that b begins with, 0 while it may go on.
func escapeSize(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[1] != 'u':
		return 2
	case len(b) < 6:
		return 0
	case (b[2] == 'd' || b[2] == 'D') && (b[3] == '8' || b[3] == '9' || b[3]|0x20 == 'a' || b[3]|0x20 == 'b'): // the first half
		if len(b) < 12 && (len(b) < 7 || b[6] == '\\') && (len(b) < 8 || b[7] == 'u') {
			return 0
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			return 12
		}
	}
	return 6
}
