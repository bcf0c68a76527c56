package openai

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

const (
	maxPeek  = 1 << 20                // events before the first output that are held back
	tailFor  = 5 * time.Second        // how long a whole answer waits for its usage and [DONE]
	drainFor = 250 * time.Millisecond // how long a finished connection may take to become reusable
)

// stream is a provider.Stream. Every rule of api.md "Streams" that concerns one upstream is in step.
type stream struct {
	call   *provider.Call
	watch  *provider.Watch
	resp   *http.Response
	source source
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

	held   []byte // what peek read
	heldAs provider.Chunk
	err    error // sticks: io.EOF or *llm.Error
}

func newStream(call *provider.Call, w *provider.Watch, resp *http.Response, body io.Reader) *stream {
	s := &stream{call: call, watch: w, resp: resp, model: jsonx.AppendString(nil, call.Model)}
	s.source = source{r: body, watch: w, idle: call.Timeouts.Idle}
	s.reader = sse.NewReader(&s.source)
	s.result.Status = http.StatusOK
	s.result.Usage.Source = attempt.UsageMissing
	return s
}

// source counts waiting for the upstream against the idle limit, once output has begun, and knows
// whether the body was read to its end.
type source struct {
	r       io.Reader
	watch   *provider.Watch
	idle    time.Duration
	left    time.Duration // of the idle limit
	waiting bool          // the idle limit is in force
	ended   bool
}

func (s *source) Read(p []byte) (int, error) {
	if !s.waiting || s.idle <= 0 {
		n, err := s.r.Read(p)
		s.ended = err == io.EOF
		return n, err
	}
	before := s.watch.Elapsed()
	s.watch.For(provider.LimitIdle, s.left, s.idle)
	n, err := s.r.Read(p)
	s.ended = err == io.EOF
	if s.waiting {
		s.watch.Pause()
		s.left -= s.watch.Elapsed() - before
	}
	return n, err
}

// peek reads up to the first output, holding back what comes before it.
func (s *stream) peek() *llm.Error {
	for {
		c, err := s.step()
		if err != nil {
			failure, _ := err.(*llm.Error)
			return failure
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
	s.reader.Release()
	s.reader = nil
	if s.call.Timing.Total == 0 {
		s.call.Timing.Total = s.watch.Elapsed()
	}
	if !s.done || s.source.ended {
		s.watch.Stop()
		s.resp.Body.Close()
		return
	}
	// The end marker came, the end of the body not yet: wait for it a moment, so that the connection
	// can serve again.
	s.watch.Detach()
	s.watch.For(provider.LimitTail, drainFor, drainFor)
	go func() {
		_, _ = io.CopyN(io.Discard, s.source.r, 4<<10)
		s.resp.Body.Close()
		s.watch.Stop()
	}()
}

// step reads the next event that the client is to see.
func (s *stream) step() (provider.Chunk, error) {
	for s.err == nil {
		e, err := s.reader.Next()
		if err != nil {
			if s.whole {
				return s.end([]byte(sse.Done)), nil
			}
			return s.fail(s.broken(err))
		}
		s.events = s.events || e.Whole || e.Lines > 0
		if c, show, failure := s.event(&e); failure != nil {
			return s.fail(failure)
		} else if show {
			return c, nil
		}
	}
	return provider.Chunk{}, s.err
}

// event takes one event in. show is false for what the client does not see.
func (s *stream) event(e *sse.Event) (c provider.Chunk, show bool, failure *llm.Error) {
	data := bytes.TrimSpace(e.Data)
	switch {
	case e.Lines == 0:
		if !s.output {
			if failure := s.notEvents(e.Raw); failure != nil {
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
		return s.end([]byte(sse.Done)), true, nil // the answer is whole, whatever follows
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

// relay keeps the books on a chunk and makes of it what the client is to see.
func (s *stream) relay(e *sse.Event) (c provider.Chunk, show bool) {
	p := &s.chunk
	if p.usage >= 0 && p.usageKind != jsonx.Null {
		s.count(e.Data[p.fields[p.usage].Value:p.fields[p.usage].End])
	}
	hasUsage := p.usage >= 0 && p.usageKind != jsonx.Null
	asked := s.call.Facts.IncludeUsage
	if p.count == 0 && hasUsage && !asked {
		return c, false
	}
	if p.first != "" {
		s.result.FinishReason = p.first
	}
	c.Output = p.output
	if p.output {
		s.result.Output = true
		if !s.output {
			s.output = true
			s.call.Timing.FirstOutput = s.watch.Elapsed()
			s.watch.Pause()
			s.source.waiting = true
		}
		s.source.left = s.source.idle
	}
	was := s.whole
	if s.whole = p.whole(); s.whole {
		c.Finish = p.finished
		if !was {
			s.source.waiting = false
			s.watch.For(provider.LimitTail, tailFor, tailFor)
		}
	} else if was {
		s.watch.Pause()
		s.source.waiting = true
	}
	splice := s.whole && !s.spliced && (hasUsage || !asked && p.finished)
	own := p.edit(&p.edits, e.Data, s.model, !asked)
	c.Data = s.bytes(e, splice, &c.SpliceAt)
	c.OwnMetadata = own
	s.spliced = s.spliced || splice
	c.More = s.reader.Buffered()
	return c, true
}

// bytes is the event for the client: as it came, or with the chunk's edits. spliceAt is set if asked for.
func (s *stream) bytes(e *sse.Event, splice bool, spliceAt *int) []byte {
	p := &s.chunk
	at := e.At
	switch {
	case len(p.edits) == 0 && (!splice || e.Lines == 1):
		if splice {
			*spliceAt = at + p.end - 1
		}
		return s.complete(e)
	case e.Lines == 1:
		s.out = append(s.out[:0], e.Raw[:at]...)
		s.out = p.edits.Apply(s.out, e.Data)
		s.out = append(s.out, e.Raw[at+len(e.Data):]...)
		if !e.Whole {
			s.out = append(bytes.TrimRight(s.out, "\r\n"), "\n\n"...)
		}
	default: // several data lines become one; line feeds in JSON are white space
		s.out = s.out[:0]
		if len(e.Name) > 0 {
			s.out = append(append(append(s.out, "event: "...), e.Name...), '\n')
		}
		s.out = append(s.out, "data: "...)
		at = len(s.out)
		s.out = p.edits.Apply(s.out, e.Data)
		for i := at; i < len(s.out); i++ {
			if s.out[i] == '\n' {
				s.out[i] = ' '
			}
		}
		s.out = append(s.out, "\n\n"...)
	}
	if splice {
		*spliceAt = at + p.end - 1 + p.edits.Growth()
	}
	return s.out
}

// complete is the event as it came, ended if the stream broke off before its empty line.
func (s *stream) complete(e *sse.Event) []byte {
	if e.Whole {
		return e.Raw
	}
	s.out = append(s.out[:0], bytes.TrimRight(e.Raw, "\r\n")...)
	s.out = append(s.out, "\n\n"...)
	return s.out
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

func (s *stream) fail(e *llm.Error) (provider.Chunk, error) {
	s.err = scrub(e, s.call.Secret)
	s.call.Timing.Total = s.watch.Elapsed()
	return provider.Chunk{}, s.err
}

// broken is the failure of a stream that ended before its answer did.
func (s *stream) broken(err error) *llm.Error {
	switch {
	case err == sse.ErrTooLarge:
		return provider.Unanswerable(http.StatusOK, err.Error())
	case err == io.EOF && !s.events:
		return provider.Unanswerable(http.StatusOK, "an empty answer")
	case err == io.EOF:
		return provider.Cut("the stream ended before its finish_reason", nil)
	}
	return broken(s.watch, err)
}

// notEvents looks at a block without data: plain JSON or HTML where a stream was asked.
func (s *stream) notEvents(raw []byte) *llm.Error {
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

// count takes a usage in: the last good one wins, a refused one is flagged and changes no figure.
func (s *stream) count(raw []byte) {
	u := llm.OpenAIUsage(raw, s.call.ContextLimit)
	if u.Source == attempt.UsageReported {
		s.result.Usage = u
	} else if u.Flag != "" {
		s.result.Usage.Flag = u.Flag
	}
}
