// Package chat translates OpenAI's chat completions to and from what llm holds of a request and an
// answer. It is pure.
package chat

import (
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Decode reads a request that llm.ParseChat has accepted. A part that cannot be understood is a
// client_error with its path.
func Decode(body []byte) (*llm.Request, *llm.Error) {
	var d decoder
	d.Begin(body)
	d.EachField(d.field)
	return d.Done(body)
}

type decoder struct{ llm.Decoding }

func (d *decoder) field(key []byte) {
	r, s := d.Request, &d.Request.Sampling
	switch string(key) {
	case "model", "routing", "free_models_only", "no_reasoning", "session_id":
	case "stream":
		r.Stream = d.Flag()
	case "stream_options":
		d.EachField(func(key []byte) {
			if string(key) == "include_usage" {
				r.IncludeUsage = d.Flag()
			}
		})
	case "messages":
		d.EachItem(func(int) { d.message() })
	case "max_tokens", "max_completion_tokens":
		n, _ := jsonx.Int64(d.Raw())
		r.MaxTokens = max(r.MaxTokens, n)
	case "n":
		d.Skip() // more than one is refused before
	case "temperature":
		s.Temperature = d.RawValue()
	case "top_p":
		s.TopP = d.RawValue()
	case "top_k":
		s.TopK = d.RawValue()
	case "seed":
		s.Seed = d.RawValue()
	case "frequency_penalty":
		s.FrequencyPenalty = d.RawValue()
	case "presence_penalty":
		s.PresencePenalty = d.RawValue()
	case "logprobs":
		s.LogProbs = d.RawValue()
	case "top_logprobs":
		s.TopLogProbs = d.RawValue()
	case "logit_bias":
		s.LogitBias = d.RawValue()
	case "stop":
		d.stop()
	case "tools":
		d.EachItem(func(int) { d.tool() })
	case "tool_choice":
		d.choice()
	case "parallel_tool_calls":
		r.Serial = d.Kind() == jsonx.Bool && !d.Bool()
	case "response_format":
		d.format()
	case "reasoning_effort":
		r.Reasoning.Effort = jsonx.RawText(d.RawString())
	case "user":
		r.User = d.RawString()
	case "service_tier":
		r.ServiceTier = jsonx.RawText(d.RawString())
	case "modalities":
		d.modalities()
	default:
		name := string(key)
		if d.RawValue() != nil {
			r.Leave(name)
		}
	}
}

// modalities reads what the answer is to be made of; text alone is what it is made of anyway.
func (d *decoder) modalities() {
	r := d.Request
	more := false
	d.EachItem(func(int) {
		if word := d.RawString(); word != nil {
			r.Modalities = append(r.Modalities, word)
			more = more || string(word) != `"text"`
		}
	})
	if !more {
		r.Modalities = nil
		return
	}
	r.Leave("modalities")
}

func (d *decoder) stop() {
	if d.Kind() == jsonx.String {
		d.Request.Stop = append(d.Request.Stop, d.Raw())
		return
	}
	d.EachItem(func(int) {
		if s := d.RawString(); s != nil {
			d.Request.Stop = append(d.Request.Stop, s)
		}
	})
}

// message reads one message, whose fields may stand in any order.
func (d *decoder) message() {
	var role string
	var parts, calls []llm.Part
	var images []llm.Part
	var id, thinking, refusal llm.Raw
	sealed := false
	at := d.Pos()
	d.EachField(func(key []byte) {
		switch string(key) {
		case "role":
			role = jsonx.RawText(d.RawString())
		case "content":
			parts = d.Content(d.part)
		case "tool_calls":
			d.EachItem(func(int) { calls = append(calls, d.call()) })
		case "tool_call_id":
			id = d.RawString()
		case "refusal":
			refusal = d.RawString()
		case "reasoning_content", "reasoning":
			if text := d.RawString(); llm.Filled(text) {
				thinking = text
			}
		case "reasoning_details":
			sealed = d.RawValue() != nil
		case "images":
			d.EachItem(func(int) {
				if p, ok := d.part(); ok {
					images = append(images, p)
				}
			})
		case "name":
			if d.RawValue() != nil {
				d.Request.Leave("name")
			}
		}
	})
	if llm.Filled(refusal) {
		parts = append(parts, llm.Part{Kind: llm.PartRefusal, Text: refusal})
	}
	r := d.Request
	switch role {
	case "system", "developer":
		d.System(parts...)
	case "user":
		r.Messages = append(r.Messages, llm.Message{Parts: d.User(parts)})
	case "assistant":
		if llm.Filled(thinking) || sealed {
			parts = append([]llm.Part{{Kind: llm.PartThinking, Text: llm.OrEmpty(thinking)}}, parts...)
		}
		for _, image := range images {
			d.Made(image)
		}
		r.Messages = append(r.Messages, llm.Message{Assistant: true, Parts: append(parts, calls...)})
	case "tool":
		if id == nil {
			d.Refuse(at, "is the result of a tool call and needs its tool_call_id")
			return
		}
		result := llm.Part{Kind: llm.PartResult, ID: id, Parts: parts}
		// All results of a turn make one message: that is how other protocols have them.
		if n := len(r.Messages); n > 0 && !r.Messages[n-1].Assistant && llm.OnlyResults(r.Messages[n-1].Parts) {
			r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, result)
			return
		}
		r.Messages = append(r.Messages, llm.Message{Parts: []llm.Part{result}})
	default:
		d.Refuse(at, "has a role that is none of system, developer, user, assistant and tool")
	}
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
		case "image_url":
			if d.Kind() == jsonx.String {
				p.SetSource(d.Raw())
				return
			}
			d.EachField(func(key []byte) {
				switch string(key) {
				case "url":
					p.SetSource(d.RawString())
				case "detail":
					p.Detail = d.RawString()
				}
			})
		case "file":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "file_data":
					p.SetSource(d.RawString())
				case "filename":
					p.Name = d.RawString()
				}
			})
		case "input_audio":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "data":
					p.Data = d.RawString()
				case "format":
					p.Media = "audio/" + jsonx.RawText(d.RawString())
				}
			})
		case "cache_control":
			p.Cache = d.RawValue()
		}
	})
	switch kind {
	case "text":
		p.Kind = llm.PartText
		return p, llm.Filled(p.Text)
	case "refusal":
		p.Kind = llm.PartRefusal
		return p, llm.Filled(p.Text)
	case "image_url":
		p.Kind = llm.PartImage
	case "file":
		p.Kind = llm.PartDocument
	case "input_audio":
		p.Kind = llm.PartAudio
	default:
		d.Refuse(at, "is of a type that this provider's protocol cannot say: use text, image_url, file or input_audio")
		return p, false
	}
	if p.Data == nil && p.URL == nil {
		d.Refuse(at, "holds neither data nor an address")
		return p, false
	}
	return p, true
}

func (d *decoder) call() llm.Part {
	p, at := llm.Part{Kind: llm.PartCall}, d.Pos()
	d.EachField(func(key []byte) {
		switch string(key) {
		case "id":
			p.ID = d.RawString()
		case "function":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "name":
					p.Name = d.RawString()
				case "arguments":
					p.Input = Arguments(d.RawString())
				}
			})
		}
	})
	if p.Input == nil {
		p.Input = llm.Raw("{}")
	}
	if p.ID == nil || p.Name == nil {
		d.Refuse(at, "needs an id and a function with a name")
	}
	return p
}

// Arguments makes an object of the text of one. What a model wrote that is none is kept under a key
// of its own.
func Arguments(raw llm.Raw) llm.Raw {
	text := []byte(jsonx.RawText(raw))
	if len(text) == 0 {
		return llm.Raw("{}")
	}
	var c jsonx.Cursor
	c.ResetLoose(text)
	kind := c.Kind()
	c.Skip()
	if c.End() == nil && kind == jsonx.Object {
		return text
	}
	return append(append([]byte(`{"arguments":`), raw...), '}')
}

func (d *decoder) tool() {
	at := d.Pos()
	var kind string
	var t llm.Tool
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "cache_control":
			t.Cache = d.RawValue()
		case "function":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "name":
					t.Name = d.RawString()
				case "description":
					t.Description = d.RawString()
				case "parameters":
					t.Schema = d.RawValue()
				case "strict":
					t.Strict = d.RawValue()
				}
			})
		}
	})
	if kind != "function" || t.Name == nil {
		d.Refuse(at, "is no function with a name, which is the only kind of tool that this provider's protocol can say")
		return
	}
	d.Request.Tools = append(d.Request.Tools, t)
}

func (d *decoder) choice() {
	if d.ChoiceWord() {
		return
	}
	c, at := &d.Request.Choice, d.Pos()
	if d.Kind() != jsonx.Object {
		d.Skip()
		return
	}
	d.EachField(func(key []byte) {
		if string(key) == "function" {
			d.EachField(func(key []byte) {
				if string(key) == "name" {
					c.Mode, c.Name = llm.ChoiceNamed, d.RawString()
				}
			})
		}
	})
	if c.Name == nil {
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
		case "json_schema":
			d.EachField(func(key []byte) {
				switch string(key) {
				case "name":
					f.Name = d.RawString()
				case "schema":
					f.Schema = d.RawValue()
				case "strict":
					f.Strict = d.RawValue()
				}
			})
		}
	})
}
