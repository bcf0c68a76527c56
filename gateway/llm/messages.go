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
	var role jsonx.Text
	var result []byte
	roleAt, resultAt, content := -1, at, false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "role":
			if roleAt = c.Pos(); c.Kind() != jsonx.String {
				p.wrong(roleAt, "must be a string")
				continue
			}
			role = c.Text()
		case "content":
			content = true
			p.content()
		case "tool_calls":
			p.toolCalls()
		case "tool_call_id":
			resultAt = c.Pos()
			result = c.RawString()
		case "function_call": // as tools were called once
			if c.Kind() != jsonx.Null {
				p.facts.Tools = true
				p.facts.own(resource.CapTools)
			}
		case "audio": // what was said before, by an id that its issuer alone knows
			if c.Kind() != jsonx.Null {
				p.facts.Audio = true
				p.facts.own(resource.CapAudio)
			}
		case "images": // that the model made
			c.EachItem(func(int) { p.part() })
		default:
			p.sealed(f.Key)
		}
	}
	p.facts.AssistantPrefill = role.Is("assistant") // what counts is the last message
	switch {
	case roleAt < 0:
		p.missing(at, "role")
	case role.Is("assistant"):
	case role.Is("tool"):
		if result == nil {
			p.missing(at, "tool_call_id")
		} else if !p.calls[jsonx.RawText(result)] {
			p.refuse(resultAt, "must be the id of a tool call in an assistant's message before it")
		}
	case role.Is("user"), role.Is("system"), role.Is("developer"):
		if !content {
			p.missing(at, "content")
		}
	case role.Is("function"):
		p.facts.Tools = true
		p.facts.own(resource.CapTools)
	default:
		p.refuse(roleAt, "must be system, developer, user, assistant or tool")
	}
}

// toolCalls notes the ids of calls, which results must name.
func (p *parser) toolCalls() {
	c := &p.cursor
	at := c.Pos()
	if c.Kind() == jsonx.Null {
		return
	}
	if c.Kind() != jsonx.Array {
		p.wrong(at, "must be an array")
		return
	}
	items := c.Array()
	for c.NextItem(&items) {
		if at = c.Pos(); c.Kind() != jsonx.Object {
			p.wrong(at, "must be an object")
			continue
		}
		for f := c.Object(); c.Next(&f); {
			if string(f.Key) == "id" {
				p.called(jsonx.RawText(c.RawString()))
			} else {
				p.sealed(f.Key)
			}
		}
	}
}

// sealed reads a field that may hold reasoning which only its issuer can read.
func (p *parser) sealed(field []byte) {
	if payload := Sealed(&p.cursor, field); payload != nil {
		p.facts.Replayed = payload
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
	var kind jsonx.Text
	typed, text, image, file := -1, false, false, false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "type":
			if typed = c.Pos(); c.Kind() != jsonx.String {
				p.wrong(typed, "must be a string")
				continue
			}
			kind = c.Text()
		case "file_id": // the host of the file is the only one who has it
			if file = p.cursor.RawString() != nil; file {
				p.facts.own(resource.CapDocuments)
				p.facts.own(resource.CapVision)
			}
		case "image_url":
			image = c.Kind() != jsonx.Null
			p.linked(resource.CapVision)
		case "file_url":
			if c.Kind() != jsonx.Null {
				p.facts.own(resource.CapDocuments) // others take them as data
			}
			p.linked(resource.CapDocuments)
		case "file_data":
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
		case "input_audio":
			p.cursor.EachField(func(key []byte) {
				if string(key) == "data" {
					p.audio()
				}
			})
		case "text":
			text = true
			switch c.Kind() {
			case jsonx.String:
				p.facts.TextChars += int64(c.Text().Chars())
			case jsonx.Null:
			default:
				p.wrong(c.Pos(), "must be a string")
			}
		}
	}
	switch {
	case typed < 0:
		p.missing(at, "type")
	case (kind.Is("text") || kind.Is("input_text")) && !text:
		p.missing(at, "text")
	case (kind.Is("image_url") || kind.Is("input_image")) && !image && !file:
		p.missing(at, "image_url")
	default:
		p.media(typed, kind)
	}
}

// audio reads data of sound: base64, though some take addresses as well.
func (p *parser) audio() {
	at := p.cursor.Pos()
	raw := p.cursor.RawString()
	if bytes.Contains(raw[:min(len(raw), 16)], []byte(":")) {
		p.address(at, raw, resource.CapAudio)
	} else if !SafeBase64(raw) {
		p.refuse(at, "must be base64")
	}
}

// media notes what a part's type at offset at asks of a model.
func (p *parser) media(at int, kind jsonx.Text) {
	f := p.facts
	switch {
	case kind.Is("text"):
	case kind.Is("image_url"), kind.Is("image"), kind.Is("input_image"):
		f.Images++
	case kind.Is("input_audio"), kind.Is("audio"):
		f.Audio = true
	case kind.Is("file"), kind.Is("input_file"), kind.Is("document"):
		f.Documents = true
	case kind.Is("input_text"), kind.Is("output_text"), kind.Is("refusal"), kind.Is("summary_text"), kind.Is("reasoning_text"):
	case !otherParts[kind.String()]:
		p.refuse(at, "is a type of content that does not exist here; use text, image_url, file or input_audio, in Responses input_text, input_image or input_file")
	default:
		f.own(resource.CapVision)
	}
}

// otherParts are types of content that some providers have beside OpenAI's; no other protocol can say them.
var otherParts = map[string]bool{
	"video_url": true, "video": true, "input_video": true, "audio_url": true, "document_url": true, "thinking": true, "reference": true,
	"tool_result": true, "tool_use": true, "tool_reference": true, "computer_screenshot": true, "encrypted_content": true,
}
