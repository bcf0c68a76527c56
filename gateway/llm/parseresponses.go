package llm

import (
	"slices"
	"strings"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// ParseResponses reads a request of OpenAI's Responses: the whole JSON is checked, and of its fields
// what the gateway reads or changes. What would have to be stored is refused, since nothing is.
func ParseResponses(body []byte) (*Facts, *APIError) {
	return parse(body, (*parser).responsesField, "input", "is missing; send a text or a list of items")
}

func (p *parser) responsesField(key []byte) {
	f, c := p.facts, &p.cursor
	nth := len(f.Fields) + 1
	switch string(key) {
	case "input":
		p.sawInput = true
		p.items()
	case "instructions":
		if at := c.Pos(); c.Kind() == jsonx.String {
			f.TextChars += int64(c.Text().Chars())
		} else if !p.null() {
			p.wrong(at, "must be a string")
		}
	case "store", "background":
		if at := c.Pos(); p.boolean() {
			p.refuse(at, "must be false or left out: the gateway stores no answers")
		}
	case "previous_response_id", "conversation", "prompt":
		if at := c.Pos(); !p.null() {
			p.refuse(at, "must be left out: the gateway stores nothing that it could name; send the whole input")
		}
	case "max_output_tokens":
		f.MaxTokens = p.integer(maxTokens)
	case "tools":
		p.tools(p.responsesTool)
	case "tool_choice":
		f.At.ToolChoice = nth
		p.toolChoice(false)
	case "text":
		p.object(func(key []byte) {
			if string(key) == "format" {
				f.ResponseFormat = p.typed()
			}
		})
	case "reasoning":
		p.object(func(key []byte) {
			if string(key) == "effort" {
				f.ReasoningEffort = p.text()
			}
		})
	case "service_tier":
		f.ServiceTier = p.text()
	case "prompt_cache_key":
		f.PromptCacheKey = p.text()
	default:
		p.shared(key)
	}
}

// items reads the input: a text or a list of items.
func (p *parser) items() {
	if p.cursor.Kind() == jsonx.String {
		p.facts.TextChars += int64(p.cursor.Text().Chars())
		return
	}
	var items []jsonx.Field
	var ours []bool
	p.list("must be a string or an array of items", "must hold at least one item", func() {
		start := p.cursor.Pos()
		own := p.item()
		if p.cursor.Pos() == start {
			p.cursor.Skip()
		}
		items, ours = append(items, jsonx.Field{Key: start, Value: start, End: p.cursor.Pos()}), append(ours, own)
	})
	if p.cursor.Err() != nil || !slices.Contains(ours, true) {
		return
	}
	var edits jsonx.Edits
	edits.DeleteFields(items, func(i int) bool { return ours[i] })
	for _, e := range edits {
		p.facts.Unsigned = append(p.facts.Unsigned, jsonx.Field{Key: e.Start, Value: e.Start, End: e.End})
	}
}

// OurReasoning begins the ids of reasoning that a translation told.
const OurReasoning = "rs_turnout_"

// SealMark begins the encrypted_content of reasoning that a translation told.
const SealMark = "turnout-"

// item reads one item and says whether it is reasoning that a translation told, which OpenAI knows nothing
// of.
func (p *parser) item() (ours bool) {
	c, f := &p.cursor, p.facts
	at := c.Pos()
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return false
	}
	kind, role, call, id := "", "", "", ""
	var sealed, made []byte
	kindAt, callAt, madeAt, content, tools := at, at, at, -1, false
	c.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kindAt = c.Pos()
			kind = p.text()
		case "role":
			at := c.Pos()
			switch role = p.text(); role {
			case "user", "assistant", "system", "developer":
			default:
				p.refuse(at, "must be user, assistant, system or developer")
			}
		case "id":
			id = jsonx.RawText(c.RawString())
		case "call_id":
			callAt = c.Pos()
			call = jsonx.RawText(c.RawString())
		case "content", "output":
			content = c.Pos()
			switch kind {
			case "", "message", "reasoning", "function_call_output", "custom_tool_call_output":
				if c.Kind() != jsonx.Object { // some outputs are
					p.content()
				}
			default: // OpenAI's own
				c.Skip()
			}
		case "encrypted_content":
			sealed = c.RawString()
		case "result":
			madeAt = c.Pos()
			made = c.RawString()
		case "tools": // that were found or came later; other items list what is none
			if tools = kind == "tool_search_output" || kind == "additional_tools"; tools {
				p.tools(p.responsesTool)
			}
		}
	})
	f.AssistantPrefill = role == "assistant"
	switch searched := kind == "tool_search_call" || kind == "tool_search_output"; {
	case searched && call == "": // OpenAI searched
		f.own(resource.CapTools)
		return false
	case !tools && (kind == "tool_search_output" || kind == "additional_tools"):
		f.own(resource.CapTools) // of kinds that were not looked at
	}
	switch kind {
	case "", "message":
		switch {
		case role == "":
			p.missing(at, "role")
		case content < 0:
			p.missing(at, "content")
		}
	case "function_call", "custom_tool_call", "tool_search_call":
		p.called(call)
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		if !p.calls[call] {
			p.refuse(callAt, "must be the call_id of a "+strings.TrimSuffix(strings.TrimSuffix(kind, "_output"), "_call")+"_call before it")
		}
	case "additional_tools":
	case "reasoning":
		if len(sealed) > len(`""`) {
			f.Replayed = sealed
		}
		return strings.HasPrefix(id, OurReasoning) || strings.HasPrefix(jsonx.RawText(sealed), SealMark)
	case "image_generation_call":
		f.Images++
		if len(made) <= len(`""`) {
			f.own(resource.CapVision) // OpenAI knows it by its id
		} else if !SafeBase64(made) {
			p.refuse(madeAt, "must be base64")
		}
	case "item_reference":
		p.refuse(at, "refers to an item that the gateway did not store; send the item itself")
	default:
		if !ownItem(kind) {
			p.refuse(kindAt, "is a type of item that does not exist here; use message, function_call, function_call_output or reasoning")
			return false
		}
		f.own(resource.CapTools)
	}
	return false
}

// ownItem says whether an item is of one of OpenAI's own tools: a call, what it brought, or what goes
// with them.
func ownItem(kind string) bool {
	switch kind {
	case "agent_message", "configuration_update", "context_compaction":
		return true
	}
	return strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_output") || strings.HasPrefix(kind, "mcp_") || strings.HasPrefix(kind, "compaction")
}
