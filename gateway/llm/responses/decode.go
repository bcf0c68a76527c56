// Package responses translates OpenAI's Responses to and from what llm holds of a request and an
// answer. It is pure.
package responses

import (
	"bytes"

	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/internal/jsonx"
)

// Decode reads a request that llm.ParseResponses has accepted. An item that cannot be understood is a
// client_error with its path.
func Decode(body []byte) (*llm.Request, *llm.Error) {
	d := decoder{body: body}
	d.Begin(body)
	d.Request.Echo = map[string]llm.Raw{}
	d.EachField(func(key []byte) {
		at, name := d.Pos(), string(key)
		d.field(key)
		if d.Pos() == at {
			d.Skip()
		}
		if _, told := echoed[name]; told {
			d.Request.Echo[name] = oneLine(body[at:d.Pos()])
		}
	})
	d.Request.System = append(d.instructions, d.Request.System...)
	d.Request.Tools = distinct(d.Request.Tools)
	return d.Done(body)
}

// oneLine takes the line breaks out of JSON, where they can only be white space: they would end a line of
// a stream. Without any it is raw itself.
func oneLine(raw llm.Raw) llm.Raw {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	return bytes.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, raw)
}

type decoder struct {
	llm.Decoding
	body         []byte
	instructions []llm.Part // stand before the input, wherever they come
}

func (d *decoder) field(key []byte) {
	r, s := d.Request, &d.Request.Sampling
	switch string(key) {
	case "model", "routing", "free_models_only", "no_reasoning", "session_id", "store", "background", "previous_response_id", "conversation", "prompt":
	case "prompt_cache_key", "metadata": // about the cache and the client alone
	case "stream":
		r.Stream = d.Flag()
	case "instructions":
		if text := d.RawString(); llm.Filled(text) {
			d.instructions = []llm.Part{{Kind: llm.PartText, Text: text}}
		}
	case "input":
		if d.Kind() == jsonx.String {
			r.Messages = append(r.Messages, llm.Message{Parts: []llm.Part{{Kind: llm.PartText, Text: d.Raw()}}})
			return
		}
		d.EachItem(func(int) { d.item() })
	case "max_output_tokens":
		r.MaxTokens, _ = jsonx.Int64(d.Raw())
	case "temperature":
		s.Temperature = d.RawValue()
	case "top_p":
		s.TopP = d.RawValue()
	case "tools":
		d.EachItem(func(int) { d.tool() })
	case "tool_choice":
		d.choice()
	case "parallel_tool_calls":
		r.Serial = d.Kind() == jsonx.Bool && !d.Bool()
	case "text":
		d.EachField(func(key []byte) {
			switch string(key) {
			case "format":
				d.format()
			case "verbosity":
				if r.Verbosity = d.RawString(); r.Verbosity != nil {
					r.Leave("text.verbosity")
				}
			default:
				d.leave("text.", key)
			}
		})
	case "reasoning":
		d.EachField(func(key []byte) {
			switch string(key) {
			case "effort":
				r.Reasoning.Effort = jsonx.RawText(d.RawString())
			case "summary", "generate_summary": // reasoning is always told
			default:
				d.leave("reasoning.", key)
			}
		})
	case "include":
		d.EachItem(func(int) {
			switch what := jsonx.RawText(d.RawString()); what {
			case "":
			case "reasoning.encrypted_content":
				r.Sealed = true
			default:
				r.Leave("include")
			}
		})
	case "user":
		r.User = d.RawString()
	case "service_tier":
		r.ServiceTier = jsonx.RawText(d.RawString())
	case "truncation":
		if word := d.RawString(); word != nil && string(word) != `"disabled"` {
			r.Leave("truncation")
		}
	default:
		d.leave("", key)
	}
}

// leave notes a field that has a value.
func (d *decoder) leave(path string, key []byte) {
	name := path + string(key)
	if d.RawValue() != nil {
		d.Request.Leave(name)
	}
}

func (d *decoder) item() {
	var kind, role string
	var id, name, space, arguments, input, found, made, sealed llm.Raw
	var summary []llm.Part
	format := "png"
	var parts []llm.Part
	at := d.Pos()
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "role":
			role = jsonx.RawText(d.RawString())
		case "call_id":
			id = d.RawString()
		case "name":
			name = d.RawString()
		case "namespace":
			space = d.RawString()
		case "arguments":
			arguments = d.RawValue()
		case "input":
			input = d.RawString()
		case "tools":
			start := d.Pos()
			d.EachItem(func(int) { d.tool() })
			found = d.body[start:d.Pos()]
		case "encrypted_content":
			sealed = d.RawString()
		case "summary":
			d.EachItem(func(int) {
				d.EachField(func(key []byte) {
					if string(key) == "text" {
						summary = append(summary, llm.Part{Kind: llm.PartText, Text: d.RawString()})
					}
				})
			})
		case "result":
			made = d.RawString()
		case "output_format":
			if word := jsonx.RawText(d.RawString()); word != "" {
				format = word
			}
		case "content", "output":
			parts = d.Content(d.part)
		}
	})
	switch kind {
	case "", "message":
		if role == "system" || role == "developer" {
			d.System(parts...)
			return
		}
		if role != "assistant" {
			parts = d.User(parts)
		}
		d.say(role == "assistant", parts...)
	case "function_call":
		if id == nil || name == nil {
			d.Refuse(at, "needs a call_id and a name")
		}
		d.say(true, llm.Part{Kind: llm.PartCall, ID: id, Name: flat(space, name), Input: chat.Arguments(arguments)})
	case "custom_tool_call":
		if id == nil || name == nil {
			d.Refuse(at, "needs a call_id and a name")
		}
		d.say(true, llm.Part{Kind: llm.PartCall, ID: id, Name: flat(space, name), Input: wrapped(input)})
	case "tool_search_call":
		if id == nil {
			d.Refuse(at, "needs a call_id: searches of OpenAI's own cannot be said in this provider's protocol")
		}
		d.say(true, llm.Part{Kind: llm.PartCall, ID: id, Name: searchName, Input: orEmptyObject(arguments)})
	case "function_call_output", "custom_tool_call_output":
		if id == nil {
			d.Refuse(at, "needs a call_id")
		}
		d.result(id, parts...)
	case "tool_search_output":
		if id == nil {
			d.Refuse(at, "needs a call_id: searches of OpenAI's own cannot be said in this provider's protocol")
		}
		text := llm.Part{Kind: llm.PartText, Text: jsonx.AppendString(nil, string(found))}
		d.result(id, text)
	case "additional_tools":
	case "reasoning":
		d.say(true, unseal(sealed, chat.Joined(summary, llm.PartText)))
	case "image_generation_call":
		if !llm.Filled(made) {
			d.Refuse(at, "is an image without its result, which only OpenAI can look up")
		}
		d.Made(llm.Part{Kind: llm.PartImage, Media: "image/" + format, Data: made})
	default:
		d.Refuse(at, "is an item of OpenAI's own, which this provider's protocol cannot say")
	}
}

// result adds what a call brought, to what it brought before: others take one answer of each call.
func (d *decoder) result(id llm.Raw, parts ...llm.Part) {
	if n := len(d.Request.Messages); n > 0 {
		for i := range d.Request.Messages[n-1].Parts {
			if p := &d.Request.Messages[n-1].Parts[i]; p.Kind == llm.PartResult && bytes.Equal(p.ID, id) {
				p.Parts = append(p.Parts, parts...)
				return
			}
		}
	}
	d.say(false, llm.Part{Kind: llm.PartResult, ID: id, Parts: parts})
}

// say adds to the turn under way where it is of the same side, else begins one.
func (d *decoder) say(assistant bool, parts ...llm.Part) {
	r := d.Request
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Assistant == assistant && (assistant || llm.OnlyResults(r.Messages[n-1].Parts) && llm.OnlyResults(parts)) {
		r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, parts...)
		return
	}
	r.Messages = append(r.Messages, llm.Message{Assistant: assistant, Parts: parts})
}

func (d *decoder) part() (p llm.Part, ok bool) {
	at := d.Pos()
	var kind string
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "text", "refusal":
			p.Text = d.RawString()
		case "image_url", "file_data", "file_url":
			p.SetSource(d.RawString())
		case "detail":
			p.Detail = d.RawString()
		case "filename":
			p.Name = d.RawString()
		}
	})
	switch kind {
	case "input_text", "output_text", "text":
		p.Kind = llm.PartText
		return p, llm.Filled(p.Text)
	case "refusal":
		p.Kind = llm.PartRefusal
		return p, llm.Filled(p.Text)
	case "input_image":
		p.Kind = llm.PartImage
	case "input_file":
		p.Kind = llm.PartDocument
	default:
		d.Refuse(at, "is of a type that this provider's protocol cannot say: use input_text, input_image or input_file")
		return p, false
	}
	if p.Data == nil && p.URL == nil {
		d.Refuse(at, "holds neither data nor an address")
		return p, false
	}
	return p, true
}

func (d *decoder) choice() {
	if d.ChoiceWord() {
		return
	}
	c, at := &d.Request.Choice, d.Pos()
	var kind string
	var space llm.Raw
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "name":
			c.Name = d.RawString()
		case "namespace":
			space = d.RawString()
		}
	})
	c.Name = flat(space, c.Name)
	switch {
	case (kind == "function" || kind == "custom") && c.Name != nil:
		c.Mode = llm.ChoiceNamed
	case kind != "":
		d.Refuse(at, "must name a function")
	}
}

func (d *decoder) format() {
	f := &d.Request.Format
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			if f.Kind = jsonx.RawText(d.RawString()); f.Kind == "text" {
				f.Kind = ""
			}
		case "name":
			f.Name = d.RawString()
		case "schema":
			f.Schema = d.RawValue()
		case "strict":
			f.Strict = d.RawValue()
		}
	})
}
