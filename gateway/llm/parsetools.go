package llm

import (
	"strings"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// tools reads a list of tools, each of them an object at offset at.
func (p *parser) tools(tool func(at int)) {
	c := &p.cursor
	at := c.Pos()
	if p.null() {
		return
	}
	if c.Kind() != jsonx.Array {
		p.wrong(at, "must be an array")
		return
	}
	items := c.Array()
	for c.NextItem(&items) {
		p.facts.Tools = true
		if c.Kind() != jsonx.Object {
			p.wrong(c.Pos(), "must be an object")
			continue
		}
		tool(c.Pos())
	}
	if c.Err() == nil && p.facts.Tools {
		p.facts.ToolChars += int64(jsonx.Chars(p.body[at:c.Pos()]))
	}
}

func (p *parser) tool(at int) {
	c := &p.cursor
	kind, typed, function, named := "", false, -1, false
	for f := c.Object(); c.Next(&f); {
		switch string(f.Key) {
		case "type":
			typed = true
			if c.Kind() != jsonx.String {
				p.wrong(c.Pos(), "must be a string")
				continue
			}
			kind = c.Text().String()
		case "function":
			function = c.Pos()
			if c.Kind() != jsonx.Object {
				continue
			}
			for g := c.Object(); c.Next(&g); {
				if string(g.Key) == "name" {
					named = c.RawString() != nil
				}
			}
		}
	}
	switch {
	case !typed:
		p.missing(at, "type")
	case kind == "function" && function < 0:
		p.missing(at, "function")
	case kind == "function" && jsonx.KindOf(p.body[function:]) != jsonx.Object:
		p.wrong(function, "must be an object")
	case kind == "function" && !named:
		p.missing(function, "name")
	case kind == "function":
	case strings.HasPrefix(kind, "web_search"):
		p.facts.WebSearch = true
	default:
		p.facts.own(resource.CapTools)
	}
}

// toolChoice reads a choice as chat has it, whose function is an object, or as Responses has it.
func (p *parser) toolChoice(nested bool) {
	c, at := &p.cursor, p.cursor.Pos()
	switch c.Kind() {
	case jsonx.Null:
	case jsonx.Object:
		p.facts.ToolChoice = "named"
		kind, named := "", false
		c.EachField(func(key []byte) {
			switch string(key) {
			case "type":
				kind = p.text()
			case "name":
				named = named || !nested && c.RawString() != nil
			case "function":
				if nested {
					c.EachField(func(key []byte) {
						named = named || string(key) == "name" && c.RawString() != nil
					})
				}
			}
		})
		switch {
		case kind == "":
			p.missing(at, "type")
		case kind == "function" && !named && nested:
			p.missing(at, "function.name")
		case kind == "function" && !named:
			p.missing(at, "name")
		case kind == "function", kind == "custom" && named:
		default: // a choice of several, or of OpenAI's own tools
			p.facts.own(resource.CapToolChoice)
		}
	case jsonx.String:
		switch word := c.Text(); {
		case word.Is("auto"), word.Is("none"), word.Is("required"):
			p.facts.ToolChoice = word.String()
		case word.Is("any"): // Mistral's word
			p.facts.ToolChoice = "required"
		default:
			p.refuse(at, "must be auto, none, required, or an object that names a function")
		}
	default:
		p.wrong(at, "must be a string or an object")
	}
}

func (p *parser) messagesTool(at int) {
	c, f := &p.cursor, p.facts
	kind, name := "custom", false
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			if word := p.text(); word != "" {
				kind = word
			}
		case "name":
			name = true
			if c.Kind() != jsonx.String {
				p.wrong(c.Pos(), "must be a string")
			}
		}
	})
	switch {
	case kind == "custom" && !name:
		p.missing(at, "name")
	case strings.HasPrefix(kind, "web_search"):
		f.WebSearch = true
	case kind != "custom":
		f.own(resource.CapTools)
	}
}

func (p *parser) messagesChoice() {
	at := p.cursor.Pos()
	kind, named := "", false
	p.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = p.text()
		case "name":
			named = p.text() != ""
		}
	})
	switch kind {
	case "":
		if jsonx.KindOf(p.body[at:]) == jsonx.Object {
			p.missing(at, "type")
		}
	case "auto", "none":
		p.facts.ToolChoice = kind
	case "any":
		p.facts.ToolChoice = "required"
	case "tool":
		p.facts.ToolChoice = "named"
		if !named {
			p.missing(at, "name")
		}
	default:
		p.refuse(at, "must have a type of auto, any, tool or none")
	}
}

func (p *parser) responsesTool(at int) {
	c, f := &p.cursor, p.facts
	kind, execution, name := "", "", false
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = p.text()
		case "execution":
			execution = p.text()
		case "name":
			name = true
			if c.Kind() != jsonx.String {
				p.wrong(c.Pos(), "must be a string")
			}
		case "tools": // of a namespace
			c.EachItem(func(int) { p.responsesTool(c.Pos()) })
		}
	})
	switch {
	case kind == "":
		p.missing(at, "type")
	case (kind == "function" || kind == "custom" || kind == "namespace") && !name:
		p.missing(at, "name")
	case kind == "function", kind == "custom", kind == "namespace":
	case kind == "tool_search" && execution == "client":
	case strings.HasPrefix(kind, "web_search"):
		f.WebSearch = true
	default:
		f.own(resource.CapTools)
	}
}
