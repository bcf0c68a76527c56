// Package dispatch serves one request: it decides where the request goes, calls, classifies what came
// back, records it, and goes on or stops (routing.md 6).
package dispatch

import (
	"net/http"
	"time"

	"turnout/gateway/llm"
)

// Request is a client's request as it was read. Nothing in it is changed.
type Request struct {
	ID       string // UUIDv7, ours
	Endpoint string // attempt.Endpoint*
	Token    string // what the client authenticates with; "" for none
	Header   http.Header
	Body     []byte    // whole, inflated
	ReadAt   time.Time // when the last byte of it was there
	Explain  bool      // x-turnout-explain: true
	Quiet    bool      // x-turnout-metadata: off
}

// Reply is the client's side of a request, in its dialect. A request ends with exactly one of Plain,
// Fail, or the last Event of a stream. Only the goroutine that serves the request calls it.
type Reply interface {
	// Route names what serves the request, for the headers that have not gone out yet.
	Route(provider, model string, attempts int)
	// Streaming says that the answer will be a stream: from now on the client is told from time to
	// time that the gateway still waits, until the first Event.
	Streaming()
	// Plain sends a whole 200 answer, the parts one behind the other. The error says that the client
	// is gone or took nothing for too long.
	Plain(parts ...[]byte) error
	// Event sends complete SSE events in one write, and flushes unless more follow at once. It blocks
	// while the client takes nothing, for a bounded time. Errors as with Plain.
	Event(more bool, parts ...[]byte) error
	// Fail tells the client that the request failed: as an error answer, or as an error event where
	// the stream has begun. extra goes beside the error object: `,"metadata":{...}`.
	Fail(e *llm.APIError, extra []byte)
}
