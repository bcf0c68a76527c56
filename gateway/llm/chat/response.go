package chat

import (
	"errors"
	"fmt"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// ErrNoAnswer is returned for JSON that holds no answer.
var ErrNoAnswer = errors.New("an answer without choices")

// Failed says whether a finish reason means that the provider gave up on the answer.
func Failed(reason string) bool {
	return reason == "error" || reason == "insufficient_system_resource" // DeepSeek's
}

// Finishes are the finish reasons of chat and what they mean.
var finishes = map[string]llm.Finish{
	"stop": llm.FinishStop, "length": llm.FinishLength, "tool_calls": llm.FinishTools,
	"function_call": llm.FinishTools, "content_filter": llm.FinishFilter, "model_length": llm.FinishLength, // Mistral's
}

// finishOf is what a reason means. An answer that calls tools may say stop: OpenAI's do where the tool was
// named, some always; elsewhere the calls would be passed over.
func finishOf(word string, calls bool) llm.Finish {
	f, ok := finishes[word]
	if !ok || f == llm.FinishStop {
		f = llm.FinishStop
		if calls {
			f = llm.FinishTools
		}
	}
	return f
}

// Word is what chat calls a reason.
func Word(f llm.Finish) string {
	switch f {
	case llm.FinishLength:
		return "length"
	case llm.FinishTools:
		return "tool_calls"
	case llm.FinishFilter:
		return "content_filter"
	}
	return "stop"
}

// DecodeResponse reads a plain answer. contextLimit bounds what is believed of its usage.
func DecodeResponse(body []byte, contextLimit int64) (*llm.Response, error) {
	r := &llm.Response{Usage: llm.NoUsage()}
	var d decoder
	d.ResetLoose(body)
	choices := 0
	d.EachField(func(key []byte) {
		switch string(key) {
		case "id":
			r.ID = d.RawString()
		case "usage":
			if raw := d.RawValue(); raw != nil {
				r.Usage = llm.OpenAIUsage(raw, contextLimit)
			}
		case "choices":
			d.EachItem(func(i int) {
				choices++
				if i == 0 {
					d.answer(r)
				}
			})
		}
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	switch {
	case choices == 0:
		return nil, ErrNoAnswer
	case Failed(r.Upstream):
		return nil, fmt.Errorf("an answer that ended with finish_reason %q", r.Upstream)
	}
	r.Finish = finishOf(r.Upstream, r.NameCalls())
	return r, nil
}

func (d *decoder) answer(r *llm.Response) {
	d.EachField(func(key []byte) {
		switch string(key) {
		case "finish_reason":
			r.Upstream = jsonx.RawText(d.RawString())
		case "message":
			r.Parts = d.said()
		}
	})
}

func (d *decoder) said() (parts []llm.Part) {
	var thinking, refusal llm.Raw
	var content, images, calls []llm.Part
	d.EachField(func(key []byte) {
		switch string(key) {
		case "content":
			content = d.Content(d.piece)
		case "images":
			d.EachItem(func(int) {
				if p, ok := d.part(); ok && p.Data != nil {
					images = append(images, p)
				}
			})
		case "reasoning_content", "reasoning":
			if text := d.RawString(); llm.Filled(text) {
				thinking = text
			}
		case "refusal":
			refusal = d.RawString()
		case "tool_calls":
			d.EachItem(func(int) { calls = append(calls, d.call()) })
		}
	})
	if llm.Filled(thinking) {
		parts = append(parts, llm.Part{Kind: llm.PartThinking, Text: thinking})
	}
	parts = append(append(parts, content...), images...)
	if llm.Filled(refusal) {
		parts = append(parts, llm.Part{Kind: llm.PartRefusal, Text: refusal})
	}
	return append(parts, calls...)
}

// piece reads a part of an answer's content: Mistral's models think in parts of their own.
func (d *decoder) piece() (p llm.Part, ok bool) {
	peek := d.Cursor
	kind := ""
	peek.EachField(func(key []byte) {
		if string(key) == "type" {
			kind = jsonx.RawText(peek.RawString())
		}
	})
	if kind != "thinking" {
		return d.part()
	}
	d.EachField(func(key []byte) {
		if string(key) == "thinking" {
			p = llm.Part{Kind: llm.PartThinking, Text: Joined(d.Content(d.part), llm.PartText)}
		}
	})
	return p, llm.Filled(p.Text)
}

// AppendResponse appends the answer for a client that speaks chat completions.
func AppendResponse(dst []byte, r *llm.Response, s llm.Stamp) []byte {
	b := append(dst, '{')
	b = append(appendID(jsonx.AddKey(b, "id"), r.ID, s), `,"object":"chat.completion"`...)
	b = jsonx.AddInt(b, "created", s.Created)
	b = jsonx.AddString(b, "model", s.Model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	text := Joined(r.Parts, llm.PartText)
	if text == nil {
		text = llm.Raw("null")
	}
	b = append(b, text...)
	b = jsonx.Add(b, "refusal", Joined(r.Parts, llm.PartRefusal))
	b = jsonx.Add(b, "reasoning_content", Joined(r.Parts, llm.PartThinking))
	images := 0
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Kind != llm.PartImage || p.Data == nil {
			continue
		}
		if images == 0 {
			b = append(b, `,"images":[`...)
		}
		b = appendImage(jsonx.Comma(b), p, images)
		images++
	}
	if images > 0 {
		b = append(b, ']')
	}
	calls := 0
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Kind != llm.PartCall {
			continue
		}
		if calls == 0 {
			b = append(b, `,"tool_calls":[`...)
		}
		b = appendCall(jsonx.Comma(b), p)
		calls++
	}
	if calls > 0 {
		b = append(b, ']')
	}
	b = append(b, '}')
	b = append(jsonx.AddString(b, "finish_reason", Word(r.Finish)), "}]"...)
	b = AppendUsage(b, &r.Usage)
	return append(b, '}')
}

// appendImage appends an image of an answer's, as OpenRouter has them.
func appendImage(b []byte, p *llm.Part, index int) []byte {
	b = append(b, `{"type":"image_url","image_url":{"url":`...)
	b = append(p.AppendDataURL(b), '}')
	return append(jsonx.AddInt(b, "index", int64(index)), '}')
}

func appendID(b []byte, id llm.Raw, s llm.Stamp) []byte {
	if llm.Filled(id) {
		return append(b, id...)
	}
	return jsonx.AppendString(b, "chatcmpl-"+s.ID)
}

// Joined is the text of all parts of a kind as one raw string, nil if there are none.
func Joined(parts []llm.Part, kind llm.PartKind) llm.Raw {
	var out llm.Raw
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind != kind || len(p.Text) < 2:
		case out == nil:
			out = p.Text[:len(p.Text):len(p.Text)]
		default:
			out = append(out[:len(out)-1:len(out)-1], p.Text[1:]...)
		}
	}
	return out
}

// AppendUsage appends the field usage, or nothing where none was reported.
func AppendUsage(b []byte, u *llm.Usage) []byte {
	if !u.Reported() {
		return b
	}
	b = append(jsonx.AddKey(b, "usage"), '{')
	b = jsonx.AddInt(b, "prompt_tokens", u.InputTokens)
	b = jsonx.AddInt(b, "completion_tokens", u.OutputTokens)
	b = jsonx.AddInt(b, "total_tokens", u.InputTokens+u.OutputTokens)
	b = append(jsonx.AddKey(b, "prompt_tokens_details"), '{')
	b = jsonx.AddInt(b, "cached_tokens", u.CachedInputTokens)
	if written := u.CacheWriteTokens + u.CacheWrite1hTokens; written > 0 {
		b = jsonx.AddInt(b, "cache_write_tokens", written)
	}
	b = append(b, '}')
	b = append(jsonx.AddKey(b, "completion_tokens_details"), '{')
	return append(jsonx.AddInt(b, "reasoning_tokens", u.ReasoningTokens), "}}"...)
}
