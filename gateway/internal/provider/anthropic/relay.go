package anthropic

import (
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// relay is a wire.Relay that passes events through. Only the model and the place for metadata are
// touched.
type relay struct {
	call   *provider.Call
	cursor jsonx.Cursor
	seen   seen
	out    []byte
	whole  bool
	ended  bool
}

func newRelay(call *provider.Call) *relay { return &relay{call: call} }

// Take implements wire.Relay.
func (r *relay) Take(e *sse.Event, c *provider.Chunk) *llm.Error {
	if e.Lines == 0 {
		if e.Whole {
			c.Data = e.Raw
		}
		return nil
	}
	var kind, delta, block string
	var sealed []byte
	r.seen.model, r.seen.isError = jsonx.Field{}, false
	d := &r.cursor
	d.ResetLoose(e.Data)
	inner := func(kind *string) func(key []byte) {
		return func(key []byte) {
			switch string(key) {
			case "type":
				*kind = jsonx.RawText(d.RawString())
			case "stop_reason":
				if word := d.RawString(); word != nil {
					r.seen.stop = jsonx.RawText(word)
				}
			case "signature", "data":
				sealed = d.RawString()
			}
		}
	}
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "message":
			r.seen.message(d, r.call.ContextLimit)
		case "usage":
			if raw := d.RawValue(); raw != nil {
				r.seen.usage.Take(raw, r.call.ContextLimit)
			}
		case "delta":
			d.EachField(inner(&delta))
		case "content_block":
			d.EachField(inner(&block))
		}
	})
	end := d.Pos()
	if err := d.End(); err != nil {
		return llm.Malformed("a malformed event", err)
	}
	if len(sealed) > len(`""`) && (delta == "signature_delta" || block == "redacted_thinking") {
		r.seen.sealed = append(r.seen.sealed[:0], sealed...)
	}
	var edits jsonx.Edits
	switch kind {
	case "error":
		if failed := llm.InBand(e.Data); failed != nil {
			return failed
		}
		return llm.Malformed("an error event", nil)
	case "message_start":
		r.seen.rename(&edits, e.Data, r.call.Model)
	case "content_block_delta":
		c.Output = true
	case "content_block_start":
		c.Output = block != "text" && block != "thinking" // those begin empty
	case "message_stop":
		if !r.whole {
			return llm.Malformed("message_stop without any stop_reason", nil)
		}
		r.ended = true
	}
	var at int
	r.out, at = wire.Rewrite(r.out[:0], e, edits)
	c.Data = r.out
	if kind == "message_delta" && r.seen.stop != "" && !r.whole {
		r.whole = true
		c.Finish, c.SpliceAt, c.OwnMetadata = true, at+end-1, true
	}
	return nil
}

// Whole implements wire.Relay.
func (r *relay) Whole() bool { return r.whole }

// Ended implements wire.Relay.
func (r *relay) Ended() bool { return r.ended }

// End implements wire.Relay.
func (r *relay) End(c *provider.Chunk) {
	if !r.ended {
		c.Data = append(c.Data, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
	}
}

// Result implements wire.Relay.
func (r *relay) Result() provider.Result {
	return provider.Result{FinishReason: r.seen.stop, Usage: r.seen.usage.Usage(), Sealed: r.seen.sealed}
}
