package llm

import (
	"bytes"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// messages reads the conversation: roles, the shape of contents, and what they hold.
func (p *parser) messages() {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() != jsonx.Array {
		p.wrong(at, "must be an array of messages")
		return
	}
	items := c.Array()
	for c.NextItem(&items) {
		p.message()
	}
	if c.Err() == nil && items.Index < 0 {
		p.wrong(at, "must hold at least one message")
	}
}

func (p *parser) message() {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return
	}
	p.facts.AssistantPrefill = false // what counts is the last message
	role := false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "role":
			role = true
			if c.Kind() != jsonx.String {
				p.wrong(c.Pos(), "must be a string")
				continue
			}
			p.facts.AssistantPrefill = c.Text().Is("assistant")
		case "content":
			p.content()
		}
	}
	if !role {
		p.missing(at, "role")
	}
}

func (p *parser) content() {
	c := &p.cursor
	switch at := c.Pos(); c.Kind() {
	case jsonx.Null:
	case jsonx.String:
		p.facts.TextChars += int64(c.Text().Chars())
	case jsonx.Array:
		items := c.Array()
		for c.NextItem(&items) {
			p.part()
		}
	default:
		p.wrong(at, "must be a string, an array of parts or null")
	}
}

// part is one element of a content array. Its type may stand behind what it describes, so text is
// counted by its field, whatever the type is called.
func (p *parser) part() {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object with a type")
		return
	}
	typed := false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "type":
			typed = true
			if c.Kind() != jsonx.String {
				p.wrong(c.Pos(), "must be a string")
				continue
			}
			p.media(c.Text())
		case "file_id": // the host of the file is the only one who has it
			if p.cursor.RawString() != nil {
				p.facts.own(resource.CapDocuments)
				p.facts.own(resource.CapVision)
			}
		case "image_url":
			p.linked(resource.CapVision)
		case "file_url":
			p.linked(resource.CapDocuments)
		case "file":
			p.cursor.EachField(func(key []byte) {
				switch string(key) {
				case "file_id":
					if p.cursor.RawString() != nil {
						p.facts.own(resource.CapDocuments)
					}
				case "file_data":
					p.linked(resource.CapDocuments)
				}
			})
		case "text":
			switch c.Kind() {
			case jsonx.String:
				p.facts.TextChars += int64(c.Text().Chars())
			case jsonx.Null:
			default:
				p.wrong(c.Pos(), "must be a string")
			}
		}
	}
	if !typed {
		p.missing(at, "type")
	}
}

// linked reads where an image or document is, as a string or as the url of an object, and notes it
// unless that is a data: address.
func (p *parser) linked(capability string) {
	c := &p.cursor
	if c.Kind() == jsonx.Object {
		c.EachField(func(key []byte) {
			if string(key) == "url" {
				p.linked(capability)
			}
		})
		return
	}
	if raw := c.RawString(); len(raw) > len(`""`) && !bytes.HasPrefix(raw, []byte(`"data:`)) {
		note(&p.facts.Linked, capability)
	}
}

func (p *parser) media(kind jsonx.Text) {
	switch {
	case kind.Is("text"):
	case kind.Is("image_url"), kind.Is("image"), kind.Is("input_image"):
		p.facts.Images++
	case kind.Is("input_audio"), kind.Is("audio"):
		p.facts.Audio = true
	case kind.Is("file"), kind.Is("input_file"), kind.Is("document"):
		p.facts.Documents = true
	case kind.Is("input_text"), kind.Is("output_text"), kind.Is("refusal"), kind.Is("summary_text"), kind.Is("reasoning_text"):
	default: // a video, or what is yet to come
		p.facts.own(resource.CapVision)
	}
}
