package dispatch

import (
	"net/http"
	"time"

	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/internal/jsonx"
)

// boundFor is how long it is remembered who issued a reasoning payload; conversations that rest for
// longer are routed as if nobody knew.
const boundFor = 24 * time.Hour

// sealKey names a reasoning payload that only its issuer can read. Nothing of it is kept but a keyed
// hash.
func (r *run) sealKey(payload []byte) string {
	org := r.access.Organization.ID
	text := jsonx.RawText(payload) // clients write it with other escapes than the issuer did
	if text == "" {
		text = string(payload)
	}
	return state.PinKey(org, "reasoning", r.d.state.SessionHash(org, text))
}

// bind keeps a request that replays such a payload at the provider that issued it.
func (r *run) bind() {
	if len(r.facts.Replayed) == 0 {
		return
	}
	if place, ok := r.d.state.Place(r.sealKey(r.facts.Replayed)); ok {
		r.in.Request.BoundTo = place.Provider
	}
}

// sealed remembers who issued the payload of an answer.
func (r *run) sealed(payload []byte) {
	if len(payload) > 0 {
		r.d.state.Pin(r.sealKey(payload), state.Place{Provider: r.event.Provider}, boundFor)
	}
}

// unbound is what the client is told when the issuer failed.
func (r *run) unbound() *llm.APIError {
	return &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: routing.ErrReasoningProvider,
		Message: "the conversation holds reasoning that only " + r.in.Request.BoundTo + " can read, and that provider fails; try again, or leave the reasoning out"}
}
