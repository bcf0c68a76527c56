package wire

import (
	"errors"
	"io"
	"net/http"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// Flow is a stream that is being read, and every rule of api.md "Streams" that hangs on when what came,
// not on what it says. A provider.Stream holds one and says how a step is made. It is begun by
// Client.Begin and must not be copied afterwards.
type Flow struct {
	Call   *provider.Call
	Watch  *provider.Watch
	Source Source
	Reader Events // nil: closed

	Events bool  // at least one event came
	Output bool  // the first output was seen
	Whole  bool  // the answer is, whatever else may come
	Done   bool  // and nothing more is waited for
	Err    error // sticks: io.EOF or a failure

	resp    *http.Response
	failure *llm.Error
	held    []byte // what Peek read
	heldAs  provider.Chunk
}

// Begin makes the streaming call. After a failure the flow is closed.
func (c *Client) Begin(s *Flow, w *provider.Watch, call *provider.Call, path string, header http.Header, body []byte) *llm.Error {
	resp, failure := c.Post(w, call, path, header, body, provider.LimitFirstOutput, call.Timeouts.FirstOutput)
	if failure == nil {
		var r io.Reader
		if r, failure = Decoded(resp); failure == nil {
			s.Call, s.Watch, s.resp = call, w, resp
			s.Source = Source{R: r, Watch: w, Idle: call.Timeouts.Idle}
			if c.Events != nil {
				s.Reader = c.Events(&s.Source)
			} else {
				s.Reader = sse.NewReader(&s.Source)
			}
			return nil
		}
		resp.Body.Close()
	}
	call.Timing.Total = w.Elapsed()
	w.Stop()
	return failure
}

// Peek steps up to the first output, holding back what comes before it. After a failure the stream has to
// be closed.
func (s *Flow) Peek(step func() (provider.Chunk, error)) *llm.Error {
	most := maxPeek
	if s.Call.Endpoint == attempt.EndpointResponses { // whose first events repeat the request
		most += 3 * len(s.Call.Body)
	}
	for {
		c, err := step()
		if err != nil {
			return s.failure
		}
		if c.SpliceAt > 0 {
			c.SpliceAt += len(s.held)
		}
		s.held = append(s.held, c.Data...)
		c.Data = s.held
		s.heldAs = c
		if c.Output || c.Finish || c.Done || len(s.held) > most {
			return nil
		}
	}
}

// Held is what Peek held back, once.
func (s *Flow) Held() (c provider.Chunk, ok bool) {
	if s.held == nil {
		return c, false
	}
	s.held = nil
	return s.heldAs, true
}

// Put notes that output came.
func (s *Flow) Put() {
	if !s.Output {
		s.Output = true
		s.Call.Timing.FirstOutput = s.Watch.Elapsed()
		s.Watch.Pause()
		s.Source.Waiting = true
	}
	s.Source.Left = s.Source.Idle
}

// Complete notes that the answer is whole: what may come behind it is waited for no longer than that.
func (s *Flow) Complete() {
	s.Whole = true
	s.Source.Waiting = false
	s.Watch.For(provider.LimitTail, tailFor, tailFor)
}

// End notes that nothing more is waited for.
func (s *Flow) End() {
	s.Done = true
	s.Err = io.EOF
	s.Watch.Pause()
	s.Call.Timing.Total = s.Watch.Elapsed()
}

// Fail ends the flow with a failure.
func (s *Flow) Fail(e *llm.Error) {
	s.failure = Scrub(e, s.Call)
	s.Err = s.failure
	s.Call.Timing.Total = s.Watch.Elapsed()
}

// Broken is the failure of a stream whose reading ended with err before its answer was whole.
func (s *Flow) Broken(err error) *llm.Error {
	switch {
	case errors.Is(err, sse.ErrTooLarge), errors.Is(err, ErrFraming):
		return provider.Unanswerable(http.StatusOK, err.Error())
	case errors.Is(err, io.EOF) && !s.Events:
		return provider.Unanswerable(http.StatusOK, "an empty answer")
	case errors.Is(err, io.EOF):
		return provider.Cut("the stream ended before its answer did", nil)
	}
	return Broken(s.Watch, err)
}

// Close ends the call; it may be called twice.
func (s *Flow) Close() {
	if s.Reader == nil {
		return
	}
	if s.Call.Timing.Total == 0 {
		s.Call.Timing.Total = s.Watch.Elapsed()
	}
	s.Reader.Release()
	s.Reader = nil
	if !s.Done || s.Source.Ended {
		s.resp.Body.Close()
		s.Watch.Stop()
		return
	}
	// The end marker came, the end of the body not yet: wait for it a moment, so that the connection
	// can serve again.
	s.Watch.Detach()
	s.Watch.For(provider.LimitTail, drainFor, drainFor)
	go func() {
		_, _ = io.CopyN(io.Discard, s.Source.R, 4<<10)
		s.resp.Body.Close()
		s.Watch.Stop()
	}()
}
