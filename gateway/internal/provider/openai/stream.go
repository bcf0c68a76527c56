package openai

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

const (
	maxPeek  = 1 << 20                // events before the first output that are held back
	tailFor  = 5 * time.Second        // how long a whole answer waits for its usage and [DONE]
	drainFor = 250 * time.Millisecond // how long a finished connection may take to become reusable
	graceFor = 50 * time.Millisecond  // how long a last chunk waits for the usage that goes into its metadata
)

// stream is a provider.Stream. Every rule of api.md "Streams" that concerns one upstream is in step.
type stream struct {
	call   *provider.Call
	watch  *provider.Watch
	resp   *http.Response
	source wire.Source
	reader *sse.Reader

	chunk  chunkParser
	result provider.Result
	model  []byte // the catalogue id as JSON
	out    []byte // the bytes of a changed event

	events  bool // at least one event came
	output  bool // the first output was seen
	whole   bool // every choice seen has its finish_reason
	spliced bool // the place for metadata was given out
	done    bool

	held    []byte // what peek read
	heldAs  provider.Chunk
	queue   provider.Chunk // what was read behind the last chunk, if queued
	queued  bool
	last    []byte // the bytes of a chunk that is kept while more is read
	ahead   chan read
	looking bool
	err     error // sticks: io.EOF or failure
	failure *llm.Error
}

// read is what the reader gave.
type read struct {
	event sse.Event
	err   error
}

func newStream(call *provider.Call, w *provider.Watch, resp *http.Response, body io.Reader) *stream {
	s := &stream{call: call, watch: w, resp: resp, model: jsonx.AppendString(nil, call.Model)}
	s.source = wire.Source{R: body, Watch: w, Idle: call.Timeouts.Idle}
	s.reader = sse.NewReader(&s.source)
	s.result.Status = http.StatusOK
	s.result.Usage.Source = attempt.UsageMissing
	return s
}

// peek reads up to the first output, holding back what comes before it.
func (s *stream) peek() *llm.Error {
	for {
		c, err := s.step()
		if err != nil {
			return s.failure
		}
		if c.SpliceAt > 0 {
			c.SpliceAt += len(s.held)
		}
		s.held = append(s.held, c.Data...)
		c.Data = s.held
		s.heldAs = c
		if c.Output || c.Finish || c.Done || len(s.held) > maxPeek {
			return nil
		}
	}
}

// Next implements provider.Stream.
func (s *stream) Next() (provider.Chunk, error) {
	if s.held != nil {
		c := s.heldAs
		s.held = nil
		return c, nil
	}
	return s.step()
}

// Result implements provider.Stream.
func (s *stream) Result() provider.Result { return s.result }

// Close implements provider.Stream.
func (s *stream) Close() {
	if s.reader == nil {
		return
	}
	if s.call.Timing.Total == 0 {
		s.call.Timing.Total = s.watch.Elapsed()
	}
	if s.ahead != nil { // a read is under way: it has to end before the connection is let go
		s.watch.Stop()
		<-s.ahead
	}
	if !s.done || s.source.Ended {
		s.reader.Release()
		s.reader = nil
		s.resp.Body.Close()
		s.watch.Stop()
		return
	}
	s.reader.Release()
	s.reader = nil
	// The end marker came, the end of the body not yet: wait for it a moment, so that the connection
	// can serve again.
	s.watch.Detach()
	s.watch.For(provider.LimitTail, drainFor, drainFor)
	go func() {
		_, _ = io.CopyN(io.Discard, s.source.R, 4<<10)
		s.resp.Body.Close()
		s.watch.Stop()
	}()
}

// step reads the next event that the client is to see.
func (s *stream) step() (provider.Chunk, error) {
	if s.queued {
		s.queued = false
		return s.queue, nil
	}
	for s.err == nil {
		if c, show := s.one(); show {
			return c, nil
		}
	}
	return provider.Chunk{}, s.err
}

// one takes one event in, or the end of the stream. show is false if there is nothing to see, or for a
// failure, which is then in s.err.
func (s *stream) one() (c provider.Chunk, show bool) {
	next := s.next()
	if next.err != nil {
		if s.whole {
			return s.end([]byte(sse.Done)), true
		}
		s.fail(s.broken(next.err))
		return c, false
	}
	e := &next.event
	s.events = s.events || e.Whole || e.Lines > 0
	c, show, failure := s.event(e)
	switch {
	case failure != nil:
		s.fail(failure)
		return c, false
	case !c.Finish || s.spliced: // the metadata's place is not to be decided, or is
	case s.looking:
		c.SpliceAt = 0
	default:
		s.looking = true
		c = s.lookBehind(c)
		s.looking = false
	}
	return c, show
}

// next is the next event; it may be under way already.
func (s *stream) next() read {
	if s.ahead != nil {
		r := <-s.ahead
		s.ahead = nil
		return r
	}
	e, err := s.reader.Next()
	return read{e, err}
}

// event takes one event in. show is false for what the client does not see.
func (s *stream) event(e *sse.Event) (c provider.Chunk, show bool, failure *llm.Error) {
	data := bytes.TrimSpace(e.Data)
	switch {
	case e.Lines == 0:
		if !s.output {
			if failure := wire.NotEvents(e.Raw); failure != nil {
				return c, false, failure
			}
		}
		return provider.Chunk{Data: e.Raw, More: s.reader.Buffered()}, e.Whole, nil
	case string(data) == "[DONE]":
		return s.marker(e)
	case len(data) == 0:
		return provider.Chunk{Data: s.complete(e)}, e.Whole, nil
	}
	err := s.chunk.parse(e.Data)
	switch {
	case s.whole && (err != nil || s.chunk.isError || string(e.Name) == "error"):
		return s.end([]byte(sse.Done)), true, nil //nolint:nilerr // the answer is whole, whatever follows
	case err != nil && !e.Whole:
		return c, false, nil // the stream broke off in it: the reader's next error says how
	case err != nil:
		return c, false, &llm.Error{Class: attempt.UpstreamError, Status: http.StatusOK, Message: "a malformed chunk", Cause: err}
	case s.chunk.isError || string(e.Name) == "error":
		if failure = llm.InBand(data); failure == nil {
			failure = &llm.Error{Class: attempt.UpstreamError, Status: http.StatusInternalServerError, Message: "an error event"}
		}
		return c, false, failure
	case s.chunk.failed != nil:
		return c, false, choiceError(s.chunk.failed)
	}
	c, show = s.relay(e)
	return c, show, nil
}

// marker takes [DONE] in.
func (s *stream) marker(e *sse.Event) (c provider.Chunk, show bool, failure *llm.Error) {
	switch {
	case s.whole:
		return s.end(s.complete(e)), true, nil
	case s.chunk.anyFinished():
		return c, false, provider.Cut("[DONE] before every choice had its finish_reason", nil)
	}
	return c, false, provider.Unanswerable(http.StatusOK, "[DONE] without any finish_reason")
}

// end is the last chunk.
func (s *stream) end(marker []byte) provider.Chunk {
	s.done = true
	s.err = io.EOF
	s.watch.Pause()
	s.call.Timing.Total = s.watch.Elapsed()
	return provider.Chunk{Data: marker, Done: true}
}

func (s *stream) fail(e *llm.Error) {
	s.failure = wire.Scrub(e, s.call)
	s.err = s.failure
	s.call.Timing.Total = s.watch.Elapsed()
}

// broken is the failure of a stream that ended before its answer did.
func (s *stream) broken(err error) *llm.Error {
	switch {
	case errors.Is(err, sse.ErrTooLarge):
		return provider.Unanswerable(http.StatusOK, err.Error())
	case errors.Is(err, io.EOF) && !s.events:
		return provider.Unanswerable(http.StatusOK, "an empty answer")
	case errors.Is(err, io.EOF):
		return provider.Cut("the stream ended before its finish_reason", nil)
	}
	return wire.Broken(s.watch, err)
}
