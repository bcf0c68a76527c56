package wire

import (
	"errors"
	"io"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/llm"
)

const (
	maxPeek  = 1 << 20                // events before the first output that are held back
	tailFor  = 5 * time.Second        // how long a whole answer waits for its usage and end marker
	drainFor = 250 * time.Millisecond // how long a finished connection may take to become reusable
)

// Relay makes of an upstream's events what the client is to see. It is used by one goroutine.
type Relay interface {
	// Take takes one event in; c.Data is what the client sees of it, valid until the next call, empty for
	// nothing. It sets Output, Finish, SpliceAt and OwnMetadata too. A block without data has Lines 0.
	Take(e *sse.Event, c *provider.Chunk) *llm.Error
	// Whole says whether the answer is complete, whatever else may come (api.md, "Streams" 6).
	Whole() bool
	// Ended says whether nothing more is to be waited for.
	Ended() bool
	// End appends to c what a whole answer still lacks for the client, its end marker at least if that
	// has not come.
	End(c *provider.Chunk)
	// Result is what is known so far, but for Output and Status.
	Result() provider.Result
}

// Events reads the events of a stream one by one, as sse.Reader does, whatever their framing is.
type Events interface {
	// Next blocks for the next event, which is valid until the call after. What is no event at all (a
	// plain answer) comes as one without data. Errors stick; ErrFraming is one of what is no framing.
	Next() (sse.Event, error)
	// Buffered says whether another whole event has been read already.
	Buffered() bool
	// Release gives the reader's memory back.
	Release()
}

// ErrFraming says that what came is not framed as it must be.
var ErrFraming = errors.New("a broken frame")

// Stream is a provider.Stream of any protocol: every rule of api.md "Streams" that does not depend on
// the protocol. Chat streams that are passed through have one of their own, which reads further.
type Stream struct {
	call   *provider.Call
	watch  *provider.Watch
	resp   *http.Response
	source Source
	reader Events
	relay  Relay

	events  bool // at least one event came
	output  bool // the first output was seen
	whole   bool
	done    bool
	held    []byte // what peek read
	heldAs  provider.Chunk
	err     error // sticks: io.EOF or failure
	failure *llm.Error
}

// Open makes the streaming call and returns once the first output was seen.
func (c *Client) Open(w *provider.Watch, call *provider.Call, path string, header http.Header, body []byte, relay Relay) (provider.Stream, *llm.Error) {
	resp, failure := c.Post(w, call, path, header, body, provider.LimitFirstOutput, call.Timeouts.FirstOutput)
	if failure == nil {
		var r io.Reader
		if r, failure = Decoded(resp); failure == nil {
			s := &Stream{call: call, watch: w, resp: resp, relay: relay}
			s.source = Source{R: r, Watch: w, Idle: call.Timeouts.Idle}
			if c.Events != nil {
				s.reader = c.Events(&s.source)
			} else {
				s.reader = sse.NewReader(&s.source)
			}
			if failure = s.peek(); failure == nil {
				return s, nil
			}
			s.Close()
			call.Timing.Total = w.Elapsed()
			return nil, failure
		}
		resp.Body.Close()
	}
	call.Timing.Total = w.Elapsed()
	w.Stop()
	return nil, failure
}

// peek reads up to the first output, holding back what comes before it.
func (s *Stream) peek() *llm.Error {
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
func (s *Stream) Next() (provider.Chunk, error) {
	if s.held != nil {
		s.held = nil
		return s.heldAs, nil
	}
	return s.step()
}

// Result implements provider.Stream.
func (s *Stream) Result() provider.Result {
	r := s.relay.Result()
	r.Status, r.Output = http.StatusOK, s.output
	return r
}

// Close implements provider.Stream.
func (s *Stream) Close() {
	if s.reader == nil {
		return
	}
	if s.call.Timing.Total == 0 {
		s.call.Timing.Total = s.watch.Elapsed()
	}
	s.reader.Release()
	s.reader = nil
	if !s.done || s.source.Ended {
		s.resp.Body.Close()
		s.watch.Stop()
		return
	}
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

// step reads up to the next thing that the client is to see.
func (s *Stream) step() (provider.Chunk, error) {
	for s.err == nil {
		var c provider.Chunk
		e, err := s.reader.Next()
		if err != nil {
			if s.whole {
				return s.end(c), nil
			}
			s.fail(s.broken(err))
			break
		}
		s.events = s.events || e.Whole || e.Lines > 0
		if e.Lines == 0 && !s.output && len(e.Raw) > 0 {
			if failure := NotEvents(e.Raw); failure != nil {
				s.fail(failure)
				break
			}
		}
		if failure := s.relay.Take(&e, &c); failure != nil {
			switch {
			case s.whole:
				return s.end(provider.Chunk{}), nil // the answer is whole, whatever follows
			case !e.Whole: // the stream broke off in it: the reader's next error says how
				continue
			}
			s.fail(failure)
			break
		}
		s.note(&c)
		if s.relay.Ended() {
			return s.end(c), nil
		}
		if len(c.Data) > 0 {
			c.More = s.reader.Buffered()
			return c, nil
		}
	}
	return provider.Chunk{}, s.err
}

// note keeps the books on what came.
func (s *Stream) note(c *provider.Chunk) {
	if c.Output {
		if !s.output {
			s.output = true
			s.call.Timing.FirstOutput = s.watch.Elapsed()
			s.watch.Pause()
			s.source.Waiting = true
		}
		s.source.Left = s.source.Idle
	}
	if !s.whole && s.relay.Whole() {
		s.whole = true
		s.source.Waiting = false
		s.watch.For(provider.LimitTail, tailFor, tailFor)
	}
}

// end is the last chunk.
func (s *Stream) end(c provider.Chunk) provider.Chunk {
	s.relay.End(&c)
	s.done = true
	s.err = io.EOF
	s.watch.Pause()
	s.call.Timing.Total = s.watch.Elapsed()
	c.Finish, c.Done, c.More = true, true, false
	return c
}

func (s *Stream) fail(e *llm.Error) {
	s.failure = Scrub(e, s.call)
	s.err = s.failure
	s.call.Timing.Total = s.watch.Elapsed()
}

// broken is the failure of a stream that ended before its answer did.
func (s *Stream) broken(err error) *llm.Error {
	switch {
	case errors.Is(err, sse.ErrTooLarge), errors.Is(err, ErrFraming):
		return provider.Unanswerable(http.StatusOK, err.Error())
	case errors.Is(err, io.EOF) && !s.events:
		return provider.Unanswerable(http.StatusOK, "an empty answer")
	case errors.Is(err, io.EOF):
		return provider.Cut("the stream ended before its answer did", nil)
	}
	return Broken(s.watch, err)
}

// NotEvents looks at a block without data: plain JSON or HTML where a stream was asked.
func NotEvents(raw []byte) *llm.Error {
	switch raw[0] {
	case '{', '[':
		if e := llm.InBand(raw); e != nil {
			return e
		}
		return provider.Unanswerable(http.StatusOK, "JSON where a stream was asked")
	case '<':
		return provider.Unanswerable(http.StatusOK, "HTML where a stream was asked")
	}
	return nil
}
