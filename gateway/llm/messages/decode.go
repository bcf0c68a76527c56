// Package messages translates Anthropic's Messages to and from what llm holds of a request and an
// answer. It is pure.
package messages

import (
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Decode reads a request that llm.ParseMessages has accepted. A part that cannot be understood is a
// client_error with its path.
func Decode(body []byte) (*llm.Request, *llm.Error) {
	var d decoder
	d.Begin(body)
	d.EachField(d.field)
	d.Request.System = append(d.head, d.Request.System...)
	return d.Done(body)
}

type decoder struct {
	llm.Decoding
	head []llm.Part // the field system, which stands before the conversation wherever it comes
}

func (d *decoder) field(key []byte) {
	r := d.Request
	switch string(key) {
	case "model", "routing", "free_models_only", "no_reasoning", "session_id":
	case "stream":
		r.Stream = d.Flag()
	case "system":
		d.head = d.Content(d.block)
	case "messages":
		d.EachItem(func(int) { d.message() })
	case "max_tokens":
		r.MaxTokens, _ = jsonx.Int64(d.Raw())
	case "temperature":
		r.Sampling.Temperature = d.RawValue()
	case "top_p":
		r.Sampling.TopP = d.RawValue()
	case "top_k":
		r.Sampling.TopK = d.RawValue()
	case "stop_sequences":
		d.EachItem(func(int) {
			if s := d.RawString(); s != nil {
				r.Stop = append(r.Stop, s)
			}
		})
	case "tools":
		d.EachItem(func(int) { d.tool() })
	case "tool_choice":
		d.choice()
	case "thinking":
		d.thinking()
	case "output_config":
		d.EachField(func(key []byte) {
			switch string(key) {
			case "effort":
				r.Reasoning.Effort = jsonx.RawText(d.RawString())
			case "format":
				d.format()
			default:
				d.leave("output_config.", key)
			}
		})
	case "output_format":
		d.format()
	case "metadata":
		d.EachField(func(key []byte) {
			if string(key) == "user_id" {
				r.User = d.RawString()
			}
		})
	case "service_tier":
		switch jsonx.RawText(d.RawString()) {
		case "standard_only":
			r.ServiceTier = "default"
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

func (d *decoder) format() {
	f := &d.Request.Format
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			f.Kind = jsonx.RawText(d.RawString())
		case "schema":
			f.Schema = d.RawValue()
		}
	})
	if f.Kind == "json_schema" {
		f.Strict = llm.Raw("true") // Anthropic's always is
	}
}

func (d *decoder) thinking() {
	t := &d.Request.Reasoning
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			switch jsonx.RawText(d.RawString()) {
			case "enabled", "adaptive":
				t.Mode = llm.ThinkingOn
			case "disabled":
				t.Mode = llm.ThinkingOff
			}
		case "budget_tokens":
			t.Budget, _ = jsonx.Int64(d.Raw())
		case "display": // how it is told; it always is
		default:
			d.leave("thinking.", key)
		}
	})
}

func (d *decoder) message() {
	var role string
	var parts []llm.Part
	d.EachField(func(key []byte) {
		switch string(key) {
		case "role":
			role = jsonx.RawText(d.RawString())
		case "content":
			parts = d.Content(d.block)
		}
	})
	if role == "system" {
		d.System(parts...)
		return
	}
	d.Request.Messages = append(d.Request.Messages, llm.Message{Assistant: role == "assistant", Parts: parts})
}

func (d *decoder) block() (p llm.Part, ok bool) {
	at := d.Pos()
	var kind string
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "text", "thinking":
			p.Text = d.RawString()
		case "signature":
			p.Signature = d.RawString()
		case "data":
			p.Redacted = d.RawString()
		case "id", "tool_use_id":
			p.ID = d.RawString()
		case "name", "title":
			p.Name = d.RawString()
		case "input":
			p.Input = d.RawValue()
		case "content":
			p.Parts = d.Content(d.block)
		case "is_error":
			p.Failed = d.Flag()
		case "cache_control":
			p.Cache = d.RawValue()
		case "source":
			d.source(&p)
		case "citations":
			d.citations()
		case "context": // of a document
			d.leave("", key)
		}
	})
	switch kind {
	case "text":
		p.Kind = llm.PartText
		return p, llm.Filled(p.Text)
	case "image":
		p.Kind = llm.PartImage
	case "document":
		p.Kind = llm.PartDocument
		if p.Text != nil { // its text came as text
			p.Kind = llm.PartText
			return p, llm.Filled(p.Text)
		}
	case "thinking", "redacted_thinking":
		p.Kind = llm.PartThinking
		return p, true
	case "tool_use":
		p.Kind = llm.PartCall
		if p.Input == nil {
			p.Input = llm.Raw("{}")
		}
		if p.ID == nil || p.Name == nil {
			d.Refuse(at, "needs an id and a name")
		}
		return p, true
	case "tool_result":
		p.Kind = llm.PartResult
		if p.ID == nil {
			d.Refuse(at, "needs a tool_use_id")
		}
		return p, true
	default:
		d.Refuse(at, "is of a type that this provider's protocol cannot say: use text, image, document, thinking, tool_use or tool_result")
		return p, false
	}
	if p.Data == nil && p.URL == nil {
		d.Refuse(at, "has a source that this provider's protocol cannot say: use base64 or url")
		return p, false
	}
	return p, true
}

// citations notes that a document is to be cited; those that a text carries are its own business.
func (d *decoder) citations() {
	d.EachField(func(key []byte) {
		if string(key) == "enabled" && d.Flag() {
			d.Request.Leave("citations")
		}
	})
}

func (d *decoder) source(p *llm.Part) {
	var kind string
	var data llm.Raw
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "media_type":
			p.Media = jsonx.RawText(d.RawString())
		case "data":
			data = d.RawString()
		case "url":
			p.URL = d.RawString()
		}
	})
	switch kind {
	case "base64":
		p.Data = data
	case "text":
		p.Text = data
	}
}

func (d *decoder) tool() {
	at := d.Pos()
	kind := "custom"
	var t llm.Tool
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			if word := d.RawString(); word != nil {
				kind = jsonx.RawText(word)
			}
		case "name":
			t.Name = d.RawString()
		case "description":
			t.Description = d.RawString()
		case "input_schema":
			t.Schema = d.RawValue()
		case "strict":
			t.Strict = d.RawValue()
		case "cache_control":
			t.Cache = d.RawValue()
		default:
			d.leave("tools.", key)
		}
	})
	if kind != "custom" {
		d.Refuse(at, "is a tool of Anthropic's own, which this provider's protocol cannot say")
		return
	}
	d.Request.Tools = append(d.Request.Tools, t)
}

func (d *decoder) choice() {
	c, at := &d.Request.Choice, d.Pos()
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			switch jsonx.RawText(d.RawString()) {
			case "auto":
				c.Mode = llm.ChoiceAuto
			case "none":
				c.Mode = llm.ChoiceNone
			case "any":
				c.Mode = llm.ChoiceRequired
			case "tool":
				c.Mode = llm.ChoiceNamed
			}
		case "name":
			c.Name = d.RawString()
		case "disable_parallel_tool_use":
			d.Request.Serial = d.Flag()
		}
	})
	if c.Mode == llm.ChoiceNamed && c.Name == nil {
		d.Refuse(at, "must name a tool")
	}
}
