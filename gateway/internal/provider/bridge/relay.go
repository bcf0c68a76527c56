package bridge

import (
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/llm"
)

// relay is a wire.Relay that translates.
type relay struct {
	decoder Decoder
	encoder encoder
	own     bool
	request *llm.Request
	seal    func(r *llm.Request, payload llm.Raw, redacted bool) llm.Raw // of the surface
	out     []byte
	output  bool // of the event under way
	finish  string
	sealed  []byte
}

// Take implements wire.Relay.
func (r *relay) Take(e *sse.Event, c *provider.Chunk) *llm.Error {
	if e.Lines == 0 {
		return nil // comments are between the upstream and us
	}
	r.out, r.output = r.out[:0], false
	if failure := r.decoder.Take(e.Name, e.Data, r.emit); failure != nil {
		return failure
	}
	c.Data, c.Output = r.out, r.output
	return nil
}

func (r *relay) emit(e *llm.Event) {
	before := len(r.out)
	r.out = r.encoder.Append(r.out, e)
	switch e.Kind {
	case llm.EventStart:
	case llm.EventFinish:
		r.finish = e.Upstream
	case llm.EventSignature, llm.EventRedacted:
		if r.seal != nil {
			r.sealed = append(r.sealed[:0], r.seal(r.request, e.Text, e.Kind == llm.EventRedacted)...)
		}
		fallthrough
	default:
		r.output = r.output || len(r.out) > before
	}
}

// Whole implements wire.Relay.
func (r *relay) Whole() bool { return r.decoder.Whole() }

// Ended implements wire.Relay.
func (r *relay) Ended() bool { return r.decoder.Ended() }

// End implements wire.Relay.
func (r *relay) End(c *provider.Chunk) {
	usage := r.decoder.Usage()
	if len(c.Data) == 0 { // not r.out, which an event before may still be in
		r.out = r.out[:0]
	}
	r.out, c.SpliceAt = r.encoder.End(r.out, &usage)
	c.Data, c.OwnMetadata = r.out, r.own
}

// Result implements wire.Relay.
func (r *relay) Result() provider.Result {
	return provider.Result{FinishReason: r.finish, Usage: r.decoder.Usage(), Sealed: r.sealed}
}
