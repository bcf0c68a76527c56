// Package provider is the gateway's side of an upstream call: what dispatch hands to an adapter, and
// what it gets back. There is one adapter a wire protocol, each in a folder of its own; the rules of
// api.md "Streams" and the classes of routing.md 6 are kept inside them.
package provider

import (
	"context"
	"net/http"
	"time"

	"turnout/gateway/llm"
)

// Target is the provider of a call. It is built once per resource set, shared by calls and never changed.
type Target struct {
	Provider      string // resource id; connection pools are kept by it
	Region        string // of the mapping; "" none
	BaseURL       string // without a final slash, e.g. https://api.groq.com/openai/v1
	HTTP2         bool   // http: 2
	AllowPrivate  bool   // the base URL may lead to loopback and private addresses
	Trace         bool   // sends Traceparent
	NoStreamUsage bool   // stream_usage: false, it refuses stream_options
	// Endpoints are what it speaks itself (attempt.Endpoint*); nil: what its protocol is known for.
	Endpoints []string
}

// Offer is what a surface gets at an adapter.
type Offer struct {
	OK         bool // it can be served at all
	Translated bool // by translation: what Facts.Own names cannot be said
	// Lacks are the capabilities (resource.Cap*) that are lost on the way.
	Lacks []string
	// LacksWithTools are the capabilities (resource.Cap*) that are lost too where a request has tools.
	LacksWithTools []string
	// BytesOnly: what a request holds by its address (Facts.Linked) cannot be said.
	BytesOnly bool
}

// Placer is an adapter whose base URLs hold the region of a mapping.
type Placer interface {
	// PlaceURL fills a region in for {region}; region is "" for a mapping without regions.
	PlaceURL(base, region string) string
}

// Publisher is an adapter whose upstreams serve models of several makers, each in its own protocol, or of
// generations that are served differently well.
type Publisher interface {
	// Of is the adapter that offers and serves a model, by the provider's name for it.
	Of(upstreamModel string) Adapter
}

// Timeouts of one attempt, resolved: provider, mapping and project merged, the extra time for long
// prompts and reasoning models (routing.md 6) included. Zero means no limit of its own.
type Timeouts struct {
	Connect     time.Duration // TCP and TLS; running out is a network_error
	FirstByte   time.Duration // plain: start to response header
	FirstOutput time.Duration // streams: start to first output; lifecycle events and comments restart nothing
	Idle        time.Duration // streams: between outputs, while waiting for the upstream
	Total       time.Duration // the attempt
}

// Call is one attempt. Dispatch fills it and hands it over; the adapter fills Timing (also when the
// attempt fails), Stripped and Token, and changes nothing else. A Call serves one attempt only.
type Call struct {
	Endpoint        string     // attempt.Endpoint*
	Facts           *llm.Facts // of Body, by the surface's parser
	Body            []byte     // the client's body, valid JSON; the adapter never writes to it
	Model           string     // catalogue id that answers carry in "model"
	UpstreamModel   string     // what the provider calls it
	ContextLimit    int64      // the mapping's context in tokens, 0 unknown: usage above twice that is refused
	MaxOutput       int64      // the mapping's limit on answers in tokens, 0 unknown
	StripToolChoice bool       // send tool_choice "auto" instead
	Target          *Target
	Secret          string // credential, sent and never kept
	Traceparent     string // sent if Target.Trace
	// Header is what goes upstream besides what the protocol sets: the client's headers that
	// forward_headers lists, openai-beta, user-agent. Hop-by-hop, credential, X-Forwarded-* and
	// idempotency headers in it are ignored.
	Header   http.Header
	Timeouts Timeouts

	Timing   Timing   // out
	Stripped []string // out: parameters that the upstream's protocol could not say, in order
	Token    string   // out: what was fetched for Secret and sent in its place, as secret as that
}

// Timing of an attempt, from the moment the adapter was called. Zero: did not happen.
type Timing struct {
	Connect     time.Duration // dialling and TLS; 0 on a reused connection
	FirstByte   time.Duration // to the response header
	FirstOutput time.Duration // streams: to the first (reasoning) token
	Total       time.Duration // to the end of the attempt, as far as the adapter saw it
}

// Adapter speaks one wire protocol. It is safe for concurrent use and never re-sends a call by itself.
//
// Both methods block until there is something to decide on. They end at once when ctx does: with class
// canceled if it was canceled, upstream_timeout if its deadline passed. An error is never nil together
// with a nil answer.
type Adapter interface {
	// Offer says how well requests of a surface (attempt.Endpoint*) are served at a target. It does not
	// block.
	Offer(endpoint string, target *Target) Offer
	// Complete makes a plain call and reads the whole answer.
	Complete(ctx context.Context, call *Call) (*Answer, *llm.Error)
	// Stream makes a streaming call and returns once the first output was seen (or more than 1 MiB of
	// events before it, which commits the stream too). Until then every failure is returned here and
	// nothing was shown to a client. The stream must be closed. ctx governs the whole stream.
	Stream(ctx context.Context, call *Call) (Stream, *llm.Error)
}

// Answer is a whole plain answer, ready for the client but for the metadata.
type Answer struct {
	Body []byte // valid until Release
	// SpliceAt is the offset in Body of the top object's closing brace, where
	// `,"metadata":{...},"turnout":{...}` can be put in.
	SpliceAt int
	// OwnMetadata: there is a metadata that is not ours, which stays; ours goes under turnout alone. On
	// surfaces other than chat it is always set.
	OwnMetadata bool
	Result
	release func()
}

// NewAnswer makes an answer whose Release calls release, once; nil is allowed.
func NewAnswer(body []byte, spliceAt int, ownMetadata bool, result Result, release func()) *Answer {
	return &Answer{Body: body, SpliceAt: spliceAt, OwnMetadata: ownMetadata, Result: result, release: release}
}

// Release gives the body's memory back; Body must not be used afterwards. It may be left out.
func (a *Answer) Release() {
	if a.release != nil {
		a.release()
	}
	a.release, a.Body = nil, nil
}

// Result is what became known of an attempt. While a stream runs it grows.
type Result struct {
	Status       int    // effective HTTP status; 200 for what is an answer
	FinishReason string // the first choice's, as the upstream wrote it; "" none seen
	Output       bool   // at least one (reasoning) token, tool call or other output came
	Usage        llm.Usage
	// Sealed is the last reasoning payload that only its issuer can read, as Facts.Replayed would have it
	// in the next request; nil: none came.
	Sealed []byte
}

// Stream is one committed upstream stream. It is used by one goroutine.
type Stream interface {
	// Next blocks for the next event the client is to see. It returns io.EOF when the answer is whole
	// (after the chunk with Done), and *llm.Error when it was cut, timed out, failed in band or was
	// canceled; after either it returns the same again. After an error nothing that looks like an end
	// may be sent to the client.
	Next() (Chunk, error)
	// Result is what is known so far; final once Next has returned an error or a chunk with Done.
	Result() Result
	// Close ends the upstream call if it still runs, and never blocks. Chunks are invalid afterwards.
	Close()
}

// Chunk is one or several whole events, ready for the client.
type Chunk struct {
	Data []byte // complete SSE bytes; valid until the next call of Next or Close
	// SpliceAt is where `,"metadata":{...},"turnout":{...}` is to be put into Data: set (> 0) on exactly
	// one chunk of a stream, the one with the finish_reason, or with the usage if the client asked for it.
	SpliceAt    int
	OwnMetadata bool // as in Answer
	Output      bool // holds output
	Finish      bool // with it, every choice that was asked for has its finish_reason
	Done        bool // the end marker ([DONE]): the attempt is complete and Result final; last chunk
	More        bool // another event has arrived already: a flush may wait for it
}
