package llm

import (
	"strings"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// ParseMessages reads a request of Anthropic's Messages: the whole JSON is checked, and of its fields
// what the gateway reads or changes. Everything else is the upstream's to judge.
func ParseMessages(body []byte) (*Facts, *APIError) {
	f, failed := parse(body, (*parser).messagesField, "messages", "is missing; send at least one message")
	if failed == nil && f.MaxTokens == 0 {
		return nil, invalid("max_tokens", "is missing; say how many tokens the answer may have at most")
	}
	return f, failed
}

// ParseCount reads a request to count tokens, which is one for Messages without a limit.
func ParseCount(body []byte) (*Facts, *APIError) {
	return parse(body, (*parser).messagesField, "messages", "is missing; send at least one message")
}

func (p *parser) messagesField(key []byte) {
	f, c := p.facts, &p.cursor
	nth := len(f.Fields) + 1
	switch string(key) {
	case "messages":
		p.sawInput = true
		p.list("must be an array of messages", "must hold at least one message", p.turn)
	case "system":
		p.blocks(inSystem)
	case "max_tokens":
		f.MaxTokens = p.integer(maxTokens)
	case "tools":
		p.tools(p.messagesTool)
	case "tool_choice":
		f.At.ToolChoice = nth
		p.messagesChoice()
	case "thinking":
		switch p.typed() {
		case "enabled", "adaptive":
			f.Thinking = true
		}
	case "output_config":
		p.object(func(key []byte) {
			switch string(key) {
			case "effort":
				f.ReasoningEffort = p.text()
			case "format":
				f.ResponseFormat = p.typed()
			}
		})
	case "output_format":
		f.ResponseFormat = p.typed()
	case "service_tier":
		f.ServiceTier = p.text()
	case "mcp_servers", "container":
		if c.Kind() != jsonx.Null {
			f.own(resource.CapTools)
		}
	case "metadata":
		p.object(func(key []byte) {
			if string(key) == "user_id" {
				f.SessionID, f.User = sessionOf(p.text())
			}
		})
	case "user", "session_id": // not fields of this surface
	default:
		p.shared(key)
	}
}

// object reads an object that may be left out.
func (p *parser) object(take func(key []byte)) {
	at := p.cursor.Pos()
	if p.null() {
		return
	}
	if p.cursor.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return
	}
	p.cursor.EachField(take)
}

// sessionOf reads metadata.user_id: a JSON object names its session_id (none: no session), else a
// session_<id> segment, else the whole value is the user.
func sessionOf(id string) (session, user string) {
	if strings.HasPrefix(strings.TrimSpace(id), "{") {
		var c jsonx.Cursor
		c.ResetLoose([]byte(id))
		c.EachField(func(key []byte) {
			if string(key) == "session_id" {
				session = jsonx.RawText(c.RawString())
			}
		})
		if c.End() == nil {
			return session, ""
		}
		session = ""
	}
	const mark = "session_"
	for i := len(id) - len(mark); i >= 0; i-- {
		if strings.HasPrefix(id[i:], mark) && (i == 0 || id[i-1] == '_') && len(id) > i+len(mark) {
			return id[i+len(mark):], ""
		}
	}
	return "", id
}

// list reads an array that must not be empty.
func (p *parser) list(want, none string, item func()) {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() != jsonx.Array {
		p.wrong(at, want)
		return
	}
	n := 0
	c.EachItem(func(int) {
		n++
		item()
	})
	if c.Err() == nil && n == 0 {
		p.wrong(at, none)
	}
}

func (p *parser) turn() {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return
	}
	// The role decides what the content may hold, and may stand behind it.
	role, content := "", -1
	p.resultAt, p.useAt = -1, -1
	c.EachField(func(key []byte) {
		switch string(key) {
		case "role":
			at := c.Pos()
			if role = p.text(); role != "user" && role != "assistant" && role != "system" {
				p.refuse(at, "must be user or assistant")
			}
		case "content":
			content = c.Pos()
			p.blocks(inMessage)
		}
	})
	p.facts.AssistantPrefill = role == "assistant"
	switch {
	case role == "":
		p.missing(at, "role")
	case content < 0:
		p.missing(at, "content")
	case role != "user" && p.resultAt >= 0:
		p.refuse(p.resultAt, "is a tool_result, which must stand in a user's message")
	case role != "assistant" && p.useAt >= 0:
		p.refuse(p.useAt, "is a tool_use, which must stand in an assistant's message")
	}
}

// place is where blocks stand.
type place uint8

const (
	inSystem place = iota
	inMessage
	inResult
)

// blocks reads a content: a text or a list of blocks.
func (p *parser) blocks(where place) {
	c, f := &p.cursor, p.facts
	switch at := c.Pos(); c.Kind() {
	case jsonx.String:
		f.TextChars += int64(c.Text().Chars())
		return
	case jsonx.Array:
	case jsonx.Object: // the result of a server's tool, or the content of a document
		if where == inResult {
			c.Skip()
			return
		}
		p.wrong(at, "must be a string or an array of blocks")
		return
	default:
		if where == inSystem && c.Kind() == jsonx.Null {
			return
		}
		p.wrong(at, "must be a string or an array of blocks")
		return
	}
	var items []jsonx.Field
	unsigned := 0
	c.EachItem(func(int) {
		start := c.Pos()
		naked := p.block(where)
		if c.Pos() == start {
			c.Skip()
		}
		if naked {
			unsigned |= 1 << min(len(items), 62)
		}
		if where == inMessage {
			items = append(items, jsonx.Field{Key: start, Value: start, End: c.Pos()})
		}
	})
	if unsigned == 0 || c.Err() != nil || len(items) > 62 {
		return
	}
	var edits jsonx.Edits
	edits.DeleteFields(items, func(i int) bool { return unsigned&(1<<i) != 0 })
	for _, e := range edits {
		f.Unsigned = append(f.Unsigned, jsonx.Field{Key: e.Start, Value: e.Start, End: e.End})
	}
}

// block reads one block and says whether it is reasoning that nobody signed.
func (p *parser) block(where place) (unsigned bool) {
	c, f := &p.cursor, p.facts
	at := c.Pos()
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object with a type")
		return false
	}
	var kind, id, result string
	var sealed []byte
	resultAt, source := at, -1
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = p.text()
		case "text":
			switch c.Kind() {
			case jsonx.String:
				f.TextChars += int64(c.Text().Chars())
			default:
				p.wrong(c.Pos(), "must be a string")
			}
		case "id":
			id = jsonx.RawText(c.RawString())
		case "tool_use_id":
			resultAt = c.Pos()
			result = jsonx.RawText(c.RawString())
		case "signature", "data":
			sealed = c.RawString()
		case "content":
			if c.Kind() != jsonx.Null {
				p.blocks(inResult)
			}
		case "source":
			source = c.Pos()
		}
	})
	if c.Err() != nil {
		return false
	}
	switch kind {
	case "":
		p.missing(at, "type")
	case "text":
	case "image":
		f.Images++
		p.source(at, source, false)
	case "document":
		f.Documents = true
		p.source(at, source, true)
	case "thinking", "redacted_thinking":
		if len(sealed) <= len(`""`) {
			return kind == "thinking"
		}
		f.Replayed = sealed
	case "tool_use":
		if p.useAt < 0 {
			p.useAt = at
		}
		p.called(id)
	case "tool_result":
		if p.resultAt < 0 {
			p.resultAt = at
		}
		if where != inMessage {
			p.refuse(at, "must stand in a user's message")
		} else if !p.calls[result] {
			p.refuse(resultAt, "must be the id of a tool_use before it")
		}
	default:
		switch {
		case strings.HasSuffix(kind, "_tool_use"), strings.HasSuffix(kind, "_tool_result"),
			kind == "search_result", kind == "container_upload", kind == "tool_reference", kind == "compaction",
			kind == "web_search_result", kind == "mid_conv_system", kind == "fallback":
			f.own(resource.CapTools)
			p.called(id)
		default:
			p.refuse(at, "is a block of a type that does not exist here: "+cutWord(kind))
		}
	}
	return false
}

func cutWord(s string) string { return s[:min(len(s), 64)] }

func (p *parser) called(id string) {
	if p.calls == nil {
		p.calls = map[string]bool{}
	}
	if id != "" {
		p.calls[id] = true
	}
}

// source reads where an image or a document comes from, which was passed over before.
func (p *parser) source(block, at int, document bool) {
	if at < 0 {
		p.missing(block, "source")
		return
	}
	var c jsonx.Cursor
	c.ResetLoose(p.body[at:])
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return
	}
	var kind string
	data, link, media := -1, -1, false
	var raw, url []byte
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(c.RawString())
		case "media_type":
			media = c.RawString() != nil
		case "data":
			data = c.Pos()
			raw = c.RawString()
		case "url":
			link = c.Pos()
			url = c.RawString()
		case "content":
			c.Skip()
		}
	})
	switch kind {
	case "base64", "text":
		switch {
		case data < 0:
			p.missing(at, "data")
		case kind == "base64" && !SafeBase64(raw):
			p.refuse(at+data, "must be base64")
		case kind == "base64" && !media:
			p.missing(at, "media_type")
		}
	case "url":
		switch {
		case url == nil:
			p.missing(at, "url")
		case document:
			p.facts.own(resource.CapDocuments) // others take them as data
			p.address(at+link, url, resource.CapDocuments)
		default:
			p.address(at+link, url, resource.CapVision)
		}
	case "content":
		p.facts.own(resource.CapDocuments)
	case "file":
		p.facts.own(resource.CapDocuments)
		p.facts.own(resource.CapVision)
	default:
		p.refuse(at, "must have a type of base64, url, file, text or content")
	}
}
