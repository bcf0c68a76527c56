package wire

import (
	"net/http"
	"slices"
	"strings"

	"turnout/gateway/internal/provider"
)

// never are headers that do not go upstream, whoever lists them: they are the connection's, a
// credential's, or would let somebody send a call twice.
var never = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Content-Length": true,
	"Content-Encoding": true, "Content-Type": true, "Accept-Encoding": true, "Accept": true, "Host": true, "Authorization": true, "X-Api-Key": true, "Api-Key": true,
	"Cookie": true, "Forwarded": true, "Via": true, "Idempotency-Key": true, "X-Idempotency-Key": true, "Traceparent": true, "Tracestate": true,
}

func forbidden(name string) bool {
	return never[name] || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Stainless-Retry")
}

// Header makes the header of a call. agent is ours unless the call brings one; the credential goes
// under the name that the protocol has for it, its value written out by the caller.
func Header(call *provider.Call, agent, credential, value string) http.Header {
	h := make(http.Header, 8)
	for name, values := range call.Header {
		if name = http.CanonicalHeaderKey(name); !forbidden(name) {
			h[name] = slices.Clip(values)
		}
	}
	values := make([]string, 5)
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", "application/json")
	if call.Facts.Stream {
		set(1, "Accept", "text/event-stream")
	} else {
		set(1, "Accept", "application/json")
	}
	if call.Secret != "" {
		set(2, credential, value)
	}
	if _, ok := h["User-Agent"]; !ok {
		set(3, "User-Agent", agent)
	}
	if call.Target.Trace && call.Traceparent != "" {
		set(4, "Traceparent", call.Traceparent)
	}
	return h
}
