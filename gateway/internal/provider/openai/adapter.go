// Package openai speaks OpenAI's chat completions with an upstream: to OpenAI itself and to everything
// compatible. Answers keep their bytes but for what api.md names.
package openai

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// Bounds of what is read from an upstream.
const (
	maxAnswer    = 64 << 20
	maxErrorBody = 64 << 10
	errorBodyFor = 5 * time.Second // how long the body of an error status may take
)

// Adapter is a provider.Adapter.
type Adapter struct {
	transports *provider.Transports
	agent      string
	now        func() time.Time
}

// New returns an adapter; agent is the User-Agent upstreams see ("turnout/1.2.3"), now the clock that
// HTTP dates in Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	return &Adapter{transports: transports, agent: agent, now: now}
}

var _ provider.Adapter = (*Adapter)(nil)

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	defer w.Stop()
	defer func() { call.Timing.Total = w.Elapsed() }()
	resp, failure := a.send(w, call, provider.LimitFirstByte, call.Timeouts.FirstByte)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	body, failure := decoded(resp)
	if failure != nil {
		return nil, failure
	}
	buf := getBuffer()
	if err := readAll(buf, body, resp.ContentLength); err != nil {
		putBuffer(buf)
		if errors.Is(err, errTooMuch) {
			return nil, provider.Unanswerable(resp.StatusCode, "an answer of more than 64 MiB")
		}
		return nil, broken(w, err)
	}
	answer, failure := parseAnswer(call, *buf, resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.ProtoMajor == 1)
	putBuffer(buf)
	return answer, scrub(failure, call.Secret)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	w := provider.NewWatch(ctx, call.Timeouts.Total)
	resp, failure := a.send(w, call, provider.LimitFirstOutput, call.Timeouts.FirstOutput)
	if failure == nil {
		var body io.Reader
		if body, failure = decoded(resp); failure == nil {
			s := newStream(call, w, resp, body)
			if failure = s.peek(); failure == nil {
				return s, nil
			}
			s.Close()
			call.Timing.Total = w.Elapsed()
			return nil, scrub(failure, call.Secret)
		}
		resp.Body.Close()
	}
	call.Timing.Total = w.Elapsed()
	w.Stop()
	return nil, failure
}

// send makes the call and returns its response if the status is a success. Until the response header is
// there limit holds, from the start; it is left on.
func (a *Adapter) send(w *provider.Watch, call *provider.Call, limit provider.Limit, at time.Duration) (*http.Response, *llm.Error) {
	route, err := a.transports.Route(call.Target, call.Timeouts.Connect)
	if err != nil {
		return nil, &llm.Error{Class: attempt.NetworkError, Message: err.Error()}
	}
	body := appendBody(nil, call)
	w.Until(provider.LimitConnect, call.Timeouts.Connect)
	resp, err := route.Post(w, "chat/completions", header(call, a.agent), body, func(reused bool) {
		if !reused {
			call.Timing.Connect = w.Elapsed()
		}
		w.Until(limit, at)
	})
	if err != nil {
		return nil, scrub(w.Error(err), call.Secret)
	}
	call.Timing.FirstByte = w.Elapsed()
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusNoContent {
		failure := a.refused(w, resp)
		return nil, scrub(failure, call.Secret)
	}
	if limit == provider.LimitFirstByte {
		w.Pause()
	}
	return resp, nil
}

// refused classifies an answer with an error status. What can be read of its body helps; a body that
// breaks off changes nothing.
func (a *Adapter) refused(w *provider.Watch, resp *http.Response) *llm.Error {
	defer resp.Body.Close()
	w.For(provider.LimitTail, errorBodyFor, errorBodyFor)
	var body []byte
	if r, failure := decoded(resp); failure == nil {
		body, _ = io.ReadAll(io.LimitReader(r, maxErrorBody))
	}
	if failure := w.Error(nil); failure.Class == attempt.Canceled {
		return failure
	}
	e := llm.Classify(resp.StatusCode, body)
	e.RetryAfter, _ = llm.RetryAfter(resp.Header.Get, a.now())
	return e
}

// scrub takes the credential out of a message an upstream may have echoed it in.
func scrub(e *llm.Error, secret string) *llm.Error {
	if e != nil && len(secret) >= 8 && strings.Contains(e.Message, secret) {
		e.Message = strings.ReplaceAll(e.Message, secret, "***")
	}
	return e
}

// decoded undoes a content coding that nobody asked for.
func decoded(resp *http.Response) (io.Reader, *llm.Error) {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return &gunzip{body: resp.Body}, nil
	}
	return nil, provider.Unanswerable(resp.StatusCode, "an answer in a content coding that was not asked for")
}

// gunzip begins to inflate at the first read, which may block.
type gunzip struct {
	body io.Reader
	zip  *gzip.Reader
}

var errGzip = errors.New("bad gzip")

func (g *gunzip) Read(p []byte) (int, error) {
	if g.zip == nil {
		zip, err := gzip.NewReader(g.body)
		if err == io.EOF {
			return 0, io.EOF // no byte at all: an empty body
		}
		if err != nil {
			return 0, errors.Join(errGzip, err)
		}
		g.zip = zip
	}
	return g.zip.Read(p)
}

// broken is the failure of an answer that could not be read to its end.
func broken(w *provider.Watch, err error) *llm.Error {
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
