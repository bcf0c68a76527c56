package wire

import (
	"errors"
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

// Stream is a provider.Stream of any protocol. Chat streams that are passed through have one of their own,
// which reads further.
type Stream struct {
	Flow
	relay Relay
}

// Open makes the streaming call and returns once the first output was seen.
func (c *Client) Open(w *provider.Watch, call *provider.Call, path string, header http.Header, body []byte, relay Relay) (provider.Stream, *llm.Error) {
	s := &Stream{relay: relay}
	if failure := c.Begin(&s.Flow, w, call, path, header, body); failure != nil {
		return nil, failure
	}
	if failure := s.Peek(s.step); failure != nil {
		s.Close()
		return nil, failure
	}
	return s, nil
}

// Next implements provider.Stream.
func (s *Stream) Next() (provider.Chunk, error) {
	if c, ok := s.Held(); ok {
		return c, nil
	}
	return s.step()
}

// Result implements provider.Stream.
func (s *Stream) Result() provider.Result {
	r := s.relay.Result()
	r.Status, r.Output = http.StatusOK, s.Output
	return r
}

// step reads up to the next thing that the client is to see.
func (s *Stream) step() (provider.Chunk, error) {
	for s.Err == nil {
		var c provider.Chunk
		e, err := s.Reader.Next()
		if err != nil {
			if s.Whole {
				return s.end(c), nil
			}
			s.Fail(s.Broken(err))
			break
		}
		s.Events = s.Events || e.Whole || e.Lines > 0
		if e.Lines == 0 && !s.Output && len(e.Raw) > 0 {
			if failure := NotEvents(e.Raw); failure != nil {
				s.Fail(failure)
				break
			}
		}
		if failure := s.relay.Take(&e, &c); failure != nil {
			switch {
			case s.Whole:
				return s.end(provider.Chunk{}), nil // the answer is whole, whatever follows
			case !e.Whole: // the stream broke off in it: the reader's next error says how
				continue
			}
			s.Fail(failure)
			break
		}
		if c.Output {
			s.Put()
		}
		if !s.Whole && s.relay.Whole() {
			s.Complete()
		}
		if s.relay.Ended() {
			return s.end(c), nil
		}
		if len(c.Data) > 0 {
			c.More = s.Reader.Buffered()
			return c, nil
		}
	}
	return provider.Chunk{}, s.Err
}

// end is the last chunk.
func (s *Stream) end(c provider.Chunk) provider.Chunk {
	s.relay.End(&c)
	s.End()
	c.Finish, c.Done, c.More = true, true, false
	return c
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
