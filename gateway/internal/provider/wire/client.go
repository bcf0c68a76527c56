// Package wire is what adapters have in common: a call and the reading of what comes back, with the
// limits, classes and bounds that hold whatever the protocol is.
package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/h1"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// Bounds of what is read from an upstream.
const (
	maxAnswer    = 64 << 20
	maxErrorBody = 64 << 10
	errorBodyFor = 5 * time.Second // how long the body of an error status may take
)

// Client makes an adapter's calls. It is safe for concurrent use.
type Client struct {
	Transports *provider.Transports
	Agent      string           // the User-Agent upstreams see, such as turnout/1.2.3
	Now        func() time.Time // the clock that HTTP dates in Retry-After are read by, and calls signed by
	// Events reads the events of streams; nil: server-sent ones.
	Events func(io.Reader) Events
	// Sign adds to the header what depends on address and body; nil: nothing does.
	// It may block until the attempt's context ends.
	Sign func(w *provider.Watch, call *provider.Call, at *url.URL, header http.Header, body []byte) *llm.Error
}

// Post makes the call and returns its response if the status is a success. Until the response header is
// there limit holds, from the start; it is left on for streams. Nothing is sent twice. Neither header
// nor body may change before the response's body was closed.
func (c *Client) Post(w *provider.Watch, call *provider.Call, path string, header http.Header, body []byte, limit provider.Limit, at time.Duration) (*http.Response, *llm.Error) {
	route, err := c.Transports.Route(call.Target, call.Timeouts.Connect)
	if err != nil {
		return nil, &llm.Error{Class: attempt.NetworkError, Message: err.Error()}
	}
	connect, began := call.Timeouts.Connect, time.Duration(0)
	if c.Sign != nil {
		w.Until(limit, at)
		if failure := c.Sign(w, call, route.URL(path), header, body); failure != nil {
			return nil, Scrub(failure, call)
		}
		if began = w.Elapsed(); connect > 0 { // what signing took is no part of connecting
			connect += began
		}
	}
	w.Until(provider.LimitConnect, connect)
	resp, err := route.Post(w, path, header, body, func(reused bool) {
		if !reused {
			call.Timing.Connect = w.Elapsed() - began
		}
		w.Until(limit, at)
	})
	switch {
	case errors.Is(err, h1.ErrHeader): // a client's headers cannot be so
		return nil, &llm.Error{
			Class: attempt.GatewayError, Status: http.StatusUnauthorized, InvalidKey: true, Unsent: true,
			Message: "the credential holds control characters, such as a line break: no header can carry it",
		}
	case err != nil:
		return nil, Scrub(w.Error(err), call)
	}
	call.Timing.FirstByte = w.Elapsed()
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusNoContent {
		failure := c.refused(w, resp)
		return nil, Scrub(failure, call)
	}
	if limit == provider.LimitFirstByte {
		w.Pause()
	}
	return resp, nil
}

// refused classifies an answer with an error status. What can be read of its body helps; a body that
// breaks off changes nothing.
func (c *Client) refused(w *provider.Watch, resp *http.Response) *llm.Error {
	defer resp.Body.Close()
	w.For(provider.LimitTail, errorBodyFor, errorBodyFor)
	var body []byte
	if r, failure := Decoded(resp); failure == nil {
		body, _ = io.ReadAll(io.LimitReader(r, maxErrorBody))
	}
	if failure := w.Error(nil); failure.Class == attempt.Canceled {
		return failure
	}
	e := llm.ClassifyNamed(resp.StatusCode, resp.Header.Get("X-Amzn-Errortype"), body)
	if wait, ok := llm.RetryAfter(resp.Header.Get, c.Now()); ok { // else what the body said
		e.RetryAfter = wait
	}
	return e
}

// Answer reads a whole plain answer into a buffer of GetBuffer's, to be given back by PutBuffer.
// openEnded: nothing but the end of the connection said where it ends.
func Answer(w *provider.Watch, resp *http.Response) (buf *[]byte, openEnded bool, failure *llm.Error) {
	body, failure := Decoded(resp)
	if failure != nil {
		return nil, false, failure
	}
	buf = GetBuffer()
	if err := readAll(buf, body, resp.ContentLength); err != nil {
		PutBuffer(buf)
		if errors.Is(err, errTooMuch) {
			return nil, false, provider.Unanswerable(resp.StatusCode, "an answer of more than 64 MiB")
		}
		return nil, false, Broken(w, err)
	}
	return buf, resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.ProtoMajor == 1, nil
}

// Broken is the failure of an answer that could not be read to its end.
func Broken(w *provider.Watch, err error) *llm.Error {
	e := w.Error(err)
	switch e.Class {
	case attempt.NetworkError:
		e.Status, e.Message = http.StatusOK, "the answer broke off"
	case attempt.UpstreamTimeout:
		e.Status = http.StatusOK
	}
	return e
}

var errTooMuch = errors.New("too much")

// readAll reads a whole body into buf.
func readAll(buf *[]byte, r io.Reader, length int64) error {
	b := *buf
	defer func() { *buf = b }()
	if length > maxAnswer {
		return errTooMuch
	}
	if need := min(length, maxPooled) + bytes.MinRead; length > 0 && int64(cap(b)) < need {
		b = make([]byte, 0, need)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxAnswer:
			return errTooMuch
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
