package messages

import (
	"errors"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// ErrNoAnswer is returned for JSON that holds no answer.
var ErrNoAnswer = errors.New("an answer without content")

var finishes = map[string]llm.Finish{
	"end_turn": llm.FinishStop, "pause_turn": llm.FinishStop, "stop_sequence": llm.FinishSequence,
	"max_tokens": llm.FinishLength, "model_context_window_exceeded": llm.FinishLength,
	"tool_use": llm.FinishTools, "refusal": llm.FinishFilter,
}

func finishOf(word string) llm.Finish {
	if f, ok := finishes[word]; ok {
		return f
	}
	return llm.FinishStop
}

// Word is what Messages calls a reason.
func Word(f llm.Finish) string {
	switch f {
	case llm.FinishSequence:
		return "stop_sequence"
	case llm.FinishLength:
		return "max_tokens"
	case llm.FinishTools:
		return "tool_use"
	case llm.FinishFilter:
		return "refusal"
	}
	return "end_turn"
}

// DecodeResponse reads a plain answer. contextLimit bounds what is believed of its usage.
func DecodeResponse(body []byte, contextLimit int64) (*llm.Response, error) {
	r := &llm.Response{Usage: llm.NoUsage()}
	var usage llm.MessagesUsage
	var d decoder
	d.ResetLoose(body)
	content := false
	d.EachField(func(key []byte) {
		switch string(key) {
		case "id":
			r.ID = d.RawString()
		case "content":
			content = d.Kind() == jsonx.Array
			r.Parts = d.Content(d.block)
		case "stop_reason":
			r.Upstream = jsonx.RawText(d.RawString())
			r.Finish = finishOf(r.Upstream)
		case "stop_sequence":
			r.Sequence = d.RawString()
		case "usage":
			if raw := d.RawValue(); raw != nil {
				usage.Take(raw, contextLimit)
			}
		}
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	if !content {
		return nil, ErrNoAnswer
	}
	r.Usage = usage.Usage()
	return r, nil
}

// AppendResponse appends the answer for a client that speaks Messages.
func AppendResponse(dst []byte, r *llm.Response, s llm.Stamp) []byte {
	b := append(dst, `{"id":`...)
	b = append(appendID(b, r.ID, s), `,"type":"message","role":"assistant"`...)
	b = jsonx.AddString(b, "model", s.Model)
	b = append(b, `,"content":[`...)
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Kind == llm.PartThinking && p.Signature == nil && p.Redacted == nil {
			p.Signature = llm.Raw(`""`) // nobody signed it
		}
		if p.Kind == llm.PartImage {
			p = &llm.Part{Kind: llm.PartText, Text: leftOut(p.Media)}
		}
		b = appendBlock(jsonx.Comma(b), p)
	}
	b = jsonx.AddString(append(b, ']'), "stop_reason", Word(r.Finish))
	b = appendSequence(b, r.Sequence)
	b = AppendUsage(b, &r.Usage)
	return append(b, '}')
}

// leftOut tells of an image that an answer held: those of Messages cannot.
func leftOut(media string) llm.Raw {
	return jsonx.AppendString(nil, "[The model made an image ("+media+"), which an answer of Messages cannot hold; ask by /v1/chat/completions or /v1/responses.]")
}

func appendSequence(b []byte, sequence llm.Raw) []byte {
	if sequence == nil {
		return append(b, `,"stop_sequence":null`...)
	}
	return jsonx.Add(b, "stop_sequence", sequence)
}

func appendID(b []byte, id llm.Raw, s llm.Stamp) []byte {
	if llm.Filled(id) {
		return append(b, id...)
	}
	return jsonx.AppendString(b, "msg_"+s.ID)
}

// AppendUsage appends the field usage. Clients of this surface cannot do without one: where nothing
// was reported its counts are 0.
func AppendUsage(b []byte, u *llm.Usage) []byte {
	b = append(jsonx.AddKey(b, "usage"), '{')
	written := u.CacheWriteTokens + u.CacheWrite1hTokens
	b = jsonx.AddInt(b, "input_tokens", u.InputTokens-u.CachedInputTokens-written)
	b = jsonx.AddInt(b, "cache_creation_input_tokens", written)
	b = jsonx.AddInt(b, "cache_read_input_tokens", u.CachedInputTokens)
	if written > 0 {
		b = jsonx.AddInt(append(b, `,"cache_creation":{`...), "ephemeral_5m_input_tokens", u.CacheWriteTokens)
		b = append(jsonx.AddInt(b, "ephemeral_1h_input_tokens", u.CacheWrite1hTokens), '}')
	}
	return append(jsonx.AddInt(b, "output_tokens", u.OutputTokens), '}')
}
