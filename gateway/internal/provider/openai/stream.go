package openai

import (
	"bytes"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// graceFor is how long a last chunk waits for the usage that goes into its metadata.
const graceFor = 50 * time.Millisecond

// stream is a provider.Stream that passes chat chunks through.
type stream struct {
	wire.Flow
	chunk  chunkParser
	result provider.Result
	model  []byte // the catalogue id as JSON
	out    []byte // the bytes of a changed event

	spliced bool           // the place for metadata was given out
	queue   provider.Chunk // what was read behind the last chunk, if queued
	queued  bool
	last    []byte // the bytes of a chunk that is kept while more is read
	ahead   chan read
	looking bool
}

// read is what the reader gave.
type read struct {
	event sse.Event
	err   error
}

func newStream(call *provider.Call) *stream {
	s := &stream{model: jsonx.AppendString(nil, call.Model)}
	s.result.Status = http.StatusOK
	s.result.Usage.Source = attempt.UsageMissing
	return s
}

// Next implements provider.Stream.
func (s *stream) Next() (provider.Chunk, error) {
	if c, ok := s.Held(); ok {
		return c, nil
	}
	return s.step()
}

// Result implements provider.Stream.
func (s *stream) Result() provider.Result {
	r := s.result
	r.Sealed = s.chunk.sealed
	return r
}

// Close implements provider.Stream.
func (s *stream) Close() {
	if s.Reader != nil && s.ahead != nil { // a read is under way: it has to end before the connection is let go
		if s.Call.Timing.Total == 0 {
			s.Call.Timing.Total = s.Watch.Elapsed()
		}
		s.Watch.Stop()
		<-s.ahead
	}
	s.Flow.Close()
}

// step reads the next event that the client is to see.
func (s *stream) step() (provider.Chunk, error) {
	if s.queued {
		s.queued = false
		return s.queue, nil
	}
	for s.Err == nil {
		if c, show := s.one(); show {
			return c, nil
		}
	}
	return provider.Chunk{}, s.Err
}

// one takes one event in, or the end of the stream. show is false if there is nothing to see, or for a
// failure, which is then in s.Err.
func (s *stream) one() (c provider.Chunk, show bool) {
	next := s.next()
	if next.err != nil {
		if s.Whole {
			return s.end([]byte(sse.Done)), true
		}
		s.Fail(s.Broken(next.err))
		return c, false
	}
	e := &next.event
	s.Events = s.Events || e.Whole || e.Lines > 0
	c, show, failure := s.event(e)
	switch {
	case failure != nil:
		s.Fail(failure)
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
	e, err := s.Reader.Next()
	return read{e, err}
}

// event takes one event in. show is false for what the client does not see.
func (s *stream) event(e *sse.Event) (c provider.Chunk, show bool, failure *llm.Error) {
	data := bytes.TrimSpace(e.Data)
	switch {
	case e.Lines == 0:
		if !s.Output {
			if failure := wire.NotEvents(e.Raw); failure != nil {
				return c, false, failure
			}
		}
		return provider.Chunk{Data: e.Raw, More: s.Reader.Buffered()}, e.Whole, nil
	case string(data) == "[DONE]":
		return s.marker(e)
	case len(data) == 0:
		return provider.Chunk{Data: s.complete(e)}, e.Whole, nil
	}
	err := s.chunk.parse(e.Data)
	switch {
	case s.Whole && (err != nil || s.chunk.isError || string(e.Name) == "error"):
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
	case s.Whole:
		return s.end(s.complete(e)), true, nil
	case s.chunk.anyFinished():
		return c, false, provider.Cut("[DONE] before every choice had its finish_reason", nil)
	}
	return c, false, provider.Unanswerable(http.StatusOK, "[DONE] without any finish_reason")
}

// end is the last chunk.
func (s *stream) end(marker []byte) provider.Chunk {
	s.End()
	return provider.Chunk{Data: marker, Done: true}
}
