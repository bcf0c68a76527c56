package wire

import (
	"net/http"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
)

// Host is how a protocol is spoken where not its own vendor serves it. The zero Host is the vendor.
type Host struct {
	// Path makes of the vendor's path, below the base URL, the host's; nil: they are the same.
	Path func(call *provider.Call, path string) string
	// Credential is the header that the secret goes under, and how it is written there; nil: the vendor's.
	Credential func(secret string) (name, value string)
	// Body changes a whole body in the vendor's protocol; nil: it stays.
	Body func(body []byte) []byte
	// Sending changes what translated requests are written with; nil: they are the vendor's.
	Sending func(call *provider.Call, s *llm.Sending)
}

// At is where a call goes.
func (h *Host) At(call *provider.Call, path string) string {
	if h.Path == nil {
		return path
	}
	return h.Path(call, path)
}

// Header is Header with the host's credential, or else the vendor's.
func (h *Host) Header(call *provider.Call, agent, name, value string) http.Header {
	if h.Credential != nil {
		name, value = h.Credential(call.Secret)
	}
	return Header(call, agent, name, value)
}

// Sent is the body as the host wants it.
func (h *Host) Sent(body []byte) []byte {
	if h.Body == nil {
		return body
	}
	return h.Body(body)
}
