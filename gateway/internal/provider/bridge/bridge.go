// Package bridge serves a client of one dialect by an upstream that speaks another: requests, answers
// and streams go through what llm holds of them.
package bridge

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/gateway/llm/messages"
	"turnout/gateway/llm/responses"
	"turnout/schemas/attempt"
)

// Decoder reads the events of an upstream's stream. It is used by one goroutine.
type Decoder interface {
	// Take reads one event and emits what it brings; what is emitted is valid during the call of emit.
	Take(name, data []byte, emit func(*llm.Event)) *llm.Error
	// Whole says whether the answer is complete.
	Whole() bool
	// Ended says whether nothing more of use can come.
	Ended() bool
	// Usage is what was reported so far.
	Usage() llm.Usage
}

// Protocol is how an upstream is spoken to.
type Protocol struct {
	// Path is where the call goes, below the base URL.
	Path func(call *provider.Call) string
	// Header makes the header.
	Header func(call *provider.Call) http.Header
	// Append appends the request's body and names what could not be said.
	Append func(dst []byte, r *llm.Request, s llm.Sending) (out []byte, stripped []string)
	// Sending may adjust what the body is written with; nil: it does not.
	Sending func(call *provider.Call, s *llm.Sending)
	// Response reads a plain answer.
	Response func(body []byte, contextLimit int64) (*llm.Response, error)
	// Decoder returns a decoder for a stream.
	Decoder func(contextLimit int64) Decoder
}

// encoder writes a stream for the client.
type encoder interface {
	Append(dst []byte, e *llm.Event) []byte
	End(dst []byte, u *llm.Usage) (out []byte, spliceAt int)
}

// surface is a client's dialect.
type surface struct {
	request func(body []byte) (*llm.Request, *llm.Error)
	answer  func(dst []byte, r *llm.Response, s llm.Stamp) []byte
	stream  func(s llm.Stamp, usage bool) encoder
	// seal is reasoning that only its issuer can read as the client sees it, and may bring it back; nil: it
	// does not see it.
	seal func(r *llm.Request, payload llm.Raw, redacted bool) llm.Raw
	// own: clients have a metadata of their own, so ours goes under turnout alone.
	own bool
}

var surfaces = map[string]surface{
	attempt.EndpointChat: {
		request: chat.Decode, answer: chat.AppendResponse,
		stream: func(s llm.Stamp, usage bool) encoder { return chat.NewEncoder(s, usage) },
	},
	attempt.EndpointMessages: {
		request: messages.Decode, answer: messages.AppendResponse, own: true,
		seal:   func(_ *llm.Request, payload llm.Raw, _ bool) llm.Raw { return payload },
		stream: func(s llm.Stamp, usage bool) encoder { return messages.NewEncoder(s, usage) },
	},
	attempt.EndpointResponses: {
		request: responses.Decode, answer: responses.AppendResponse, own: true,
		seal: func(r *llm.Request, payload llm.Raw, redacted bool) llm.Raw {
			if !r.Sealed {
				return nil
			}
			return responses.Seal(payload, redacted)
		},
		stream: func(s llm.Stamp, usage bool) encoder { return responses.NewEncoder(s, usage) },
	},
}

// Serves says whether a surface can be translated.
func Serves(endpoint string) bool {
	_, ok := surfaces[endpoint]
	return ok
}

// Check says whether a body can be translated from its surface at all, before a call is begun.
func Check(endpoint string, body []byte) *llm.Error {
	_, failure := surfaces[endpoint].request(body)
	return failure
}

// defaultAnswer is the limit on an answer whose length nobody gave, where the protocol wants one: the
// mapping's own, or this.
const (
	defaultAnswer = 8192
	longestAnswer = 32000
)

func prepare(call *provider.Call, p *Protocol) (body []byte, r *llm.Request, failure *llm.Error) {
	r, failure = surfaces[call.Endpoint].request(call.Body)
	if failure != nil {
		return nil, nil, failure
	}
	s := llm.Sending{Model: call.UpstreamModel, AnyTool: call.StripToolChoice, NoUsage: call.Target.NoStreamUsage, MaxTokens: defaultAnswer}
	if call.MaxOutput > 0 {
		s.MaxTokens = min(call.MaxOutput, longestAnswer)
	}
	if call.ContextLimit > 0 {
		s.MaxTokens = max(min(s.MaxTokens, call.ContextLimit/2), 1)
	}
	if p.Sending != nil {
		p.Sending(call, &s)
	}
	body, call.Stripped = p.Append(nil, r, s)
	return body, r, nil
}

func stamp(call *provider.Call, r *llm.Request, now time.Time) llm.Stamp {
	return llm.Stamp{ID: uuid.NewString(), Model: call.Model, Created: now.Unix(), Tools: r.Tools, Echo: r.Echo, Sealed: r.Sealed}
}

// Complete makes a plain call in the upstream's protocol and answers in the client's dialect.
func Complete(ctx context.Context, client *wire.Client, call *provider.Call, p *Protocol) (*provider.Answer, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	defer w.Stop()
	defer func() { call.Timing.Total = w.Elapsed() }()
	body, request, failure := prepare(call, p)
	if failure != nil {
		return nil, failure
	}
	resp, failure := client.Post(w, call, p.Path(call), p.Header(call), body, provider.LimitFirstByte, call.Timeouts.FirstByte)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	buf, openEnded, failure := wire.Answer(w, resp)
	if failure != nil {
		return nil, failure
	}
	defer wire.PutBuffer(buf)
	r, failure := read(*buf, call, p, openEnded)
	if failure != nil {
		return nil, wire.Scrub(failure, call)
	}
	to := surfaces[call.Endpoint]
	out := wire.GetBuffer()
	*out = to.answer(*out, r, stamp(call, request, client.Now()))
	result := provider.Result{Status: http.StatusOK, FinishReason: r.Upstream, Output: true, Usage: r.Usage}
	if to.seal != nil {
		result.Sealed = sealed(r.Parts, func(payload llm.Raw, redacted bool) llm.Raw { return to.seal(request, payload, redacted) })
	}
	return provider.NewAnswer(*out, len(*out)-1, to.own, result, func() { wire.PutBuffer(out) }), nil
}

// sealed is the last reasoning in an answer that only its issuer can read, as the client sees it; nil for
// none.
func sealed(parts []llm.Part, seal func(payload llm.Raw, redacted bool) llm.Raw) (last []byte) {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind != llm.PartThinking:
		case llm.Filled(p.Redacted):
			last = bytes.Clone(seal(p.Redacted, true))
		case llm.Filled(p.Signature):
			last = bytes.Clone(seal(p.Signature, false))
		}
	}
	return last
}

func read(body []byte, call *provider.Call, p *Protocol, openEnded bool) (*llm.Response, *llm.Error) {
	if problem := wire.NotJSON(body); problem != "" {
		return nil, provider.Unanswerable(http.StatusOK, problem)
	}
	if e := llm.InBand(body); e != nil {
		return nil, e
	}
	r, err := p.Response(body, call.ContextLimit)
	if err != nil {
		return nil, wire.BadAnswer(err, openEnded)
	}
	return r, nil
}

// Stream makes a streaming call in the upstream's protocol and answers in the client's dialect.
func Stream(ctx context.Context, client *wire.Client, call *provider.Call, p *Protocol) (provider.Stream, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	body, request, failure := prepare(call, p)
	if failure != nil {
		w.Stop()
		return nil, failure
	}
	to := surfaces[call.Endpoint]
	return client.Open(w, call, p.Path(call), p.Header(call), body, &relay{
		decoder: p.Decoder(call.ContextLimit), own: to.own, request: request, seal: to.seal,
		encoder: to.stream(stamp(call, request, client.Now()), call.Facts.IncludeUsage),
	})
}
