package bedrock

import (
	"errors"
	"strings"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// ErrNoAnswer is returned for JSON that holds no answer.
var ErrNoAnswer = errors.New("an answer without a message")

var finishes = map[string]llm.Finish{
	"end_turn": llm.FinishStop, "stop_sequence": llm.FinishSequence, "tool_use": llm.FinishTools,
	"max_tokens": llm.FinishLength, "model_context_window_exceeded": llm.FinishLength,
	"guardrail_intervened": llm.FinishFilter, "content_filtered": llm.FinishFilter, "refusal": llm.FinishFilter,
}

// finishOf is what a word means for an answer with so many tool calls. Bedrock is not exact about them: it
// ends answers with calls in end_turn, and texts in tool_use, on which clients would wait for calls.
func finishOf(word string, calls int) llm.Finish {
	f, ok := finishes[word]
	switch {
	case !ok:
		f = llm.FinishStop
	case f == llm.FinishStop && calls > 0:
		return llm.FinishTools
	case f == llm.FinishTools && calls == 0:
		return llm.FinishStop
	}
	return f
}

// broken says whether there is no answer that a client could use: malformed_tool_use,
// malformed_model_output.
func broken(word string) bool { return strings.HasPrefix(word, "malformed_") }

// DecodeResponse reads a plain answer. contextLimit bounds what is believed of its usage.
func DecodeResponse(body []byte, contextLimit int64) (*llm.Response, error) {
	r := &llm.Response{Usage: llm.NoUsage()}
	d := reader{}
	d.ResetLoose(body)
	answered := false
	d.EachField(func(key []byte) {
		switch string(key) {
		case "output":
			d.EachField(func(key []byte) {
				if string(key) == "message" {
					d.EachField(func(key []byte) {
						if string(key) == "content" {
							answered = d.Kind() == jsonx.Array
							d.EachItem(func(int) { d.block() })
						}
					})
				}
			})
		case "stopReason":
			r.Upstream = jsonx.RawText(d.RawString())
		case "additionalModelResponseFields":
			r.Sequence = d.sequence()
		case "usage":
			if raw := d.RawValue(); raw != nil {
				r.Usage = usageOf(raw, contextLimit)
			}
		}
	})
	if err := d.End(); err != nil {
		return nil, err
	}
	if !answered {
		return nil, ErrNoAnswer
	}
	if broken(r.Upstream) {
		return nil, errors.New("an answer that ended in " + r.Upstream)
	}
	calls := 0
	for i := range d.parts {
		if d.parts[i].Kind == llm.PartCall {
			calls++
		}
	}
	r.Parts, r.Finish = d.parts, finishOf(r.Upstream, calls)
	return r, nil
}

type reader struct {
	jsonx.Cursor
	parts []llm.Part
}

// sequence reads which stop sequence was met.
func (d *reader) sequence() (met llm.Raw) {
	d.EachField(func(key []byte) {
		if string(key) == "stop_sequence" {
			met = d.RawString()
		}
	})
	return met
}

// block reads one block of content; what it is stands in its only key.
func (d *reader) block() {
	d.EachField(func(key []byte) {
		switch string(key) {
		case "text":
			d.add(llm.Part{Kind: llm.PartText, Text: d.RawString()})
		case "toolUse":
			p := llm.Part{Kind: llm.PartCall, Input: llm.Raw("{}")}
			d.EachField(func(key []byte) {
				switch string(key) {
				case "toolUseId":
					p.ID = d.RawString()
				case "name":
					p.Name = d.RawString()
				case "input":
					if raw := d.RawValue(); raw != nil {
						p.Input = raw
					}
				}
			})
			p.ID, p.Name = llm.OrEmpty(p.ID), llm.OrEmpty(p.Name)
			d.parts = append(d.parts, p)
		case "reasoningContent":
			d.reasoning()
		case "citationsContent": // text with where it is from
			d.EachField(func(key []byte) {
				if string(key) == "content" {
					d.EachItem(func(int) { d.block() })
				}
			})
		}
	})
}

func (d *reader) add(p llm.Part) {
	if llm.Filled(p.Text) {
		d.parts = append(d.parts, p)
	}
}

func (d *reader) reasoning() {
	d.EachField(func(key []byte) {
		switch string(key) {
		case "reasoningText":
			p := llm.Part{Kind: llm.PartThinking}
			d.EachField(func(key []byte) {
				switch string(key) {
				case "text":
					p.Text = d.RawString()
				case "signature":
					p.Signature = d.RawString()
				}
			})
			if llm.Filled(p.Text) || llm.Filled(p.Signature) {
				p.Text = llm.OrEmpty(p.Text)
				d.parts = append(d.parts, p)
			}
		case "redactedContent":
			if data := d.RawString(); llm.Filled(data) {
				d.parts = append(d.parts, llm.Part{Kind: llm.PartThinking, Redacted: data})
			}
		}
	})
}

// usageOf reads usage: cached and written tokens stand beside the input, as Anthropic has it, so it is
// read by the same rules.
func usageOf(raw []byte, contextLimit int64) llm.Usage {
	var same, written []byte
	var c jsonx.Cursor
	c.ResetLoose(raw)
	c.EachField(func(key []byte) {
		switch string(key) {
		case "inputTokens":
			same = jsonx.Add(same, "input_tokens", c.Raw())
		case "outputTokens":
			same = jsonx.Add(same, "output_tokens", c.Raw())
		case "cacheReadInputTokens":
			same = jsonx.Add(same, "cache_read_input_tokens", c.Raw())
		case "cacheWriteInputTokens":
			same = jsonx.Add(same, "cache_creation_input_tokens", c.Raw())
		case "cacheDetails":
			c.EachItem(func(int) { written = appendWritten(written, &c) })
		}
	})
	if c.Err() != nil {
		return llm.Usage{Source: llm.NoUsage().Source, Flag: "usage_malformed"}
	}
	out := append([]byte{'{'}, same...)
	if written != nil {
		out = append(append(jsonx.AddKey(out, "cache_creation"), '{'), written[1:]...)
		out = append(out, '}')
	}
	if len(same) > 0 {
		out = append(out[:1], out[2:]...) // its comma
	}
	var u llm.MessagesUsage
	u.Take(append(out, '}'), contextLimit)
	return u.Usage()
}

// appendWritten appends what was written to a cache for one lifetime.
func appendWritten(b []byte, c *jsonx.Cursor) []byte {
	var ttl string
	var n llm.Raw
	c.EachField(func(key []byte) {
		switch string(key) {
		case "ttl":
			ttl = jsonx.RawText(c.RawString())
		case "inputTokens":
			n = c.RawValue()
		}
	})
	switch ttl {
	case "5m":
		return jsonx.Add(b, "ephemeral_5m_input_tokens", n)
	case "1h":
		return jsonx.Add(b, "ephemeral_1h_input_tokens", n)
	}
	return b
}
