package openai

import (
	"bytes"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

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
			s.source.Waiting = true
		}
		s.source.Left = s.source.Idle
	}
	was := s.whole
	if s.whole = p.whole(); s.whole {
		c.Finish = p.finished && int64(len(p.choices)) >= s.call.Facts.N
		if !was {
			s.source.Waiting = false
			s.watch.For(provider.LimitTail, tailFor, tailFor)
		}
	} else if was {
		s.watch.Pause()
		s.source.Waiting = true
	}
	takes := s.whole && !s.spliced && hasUsage && (c.Finish || p.count == 0) // the metadata
	mayTake := c.Finish && !s.spliced                                        // lookBehind decides
	c.OwnMetadata = p.edit(&p.edits, e.Data, s.model, !asked)
	c.Data = s.bytes(e, takes || mayTake, &c.SpliceAt)
	s.spliced = s.spliced || takes
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

// count takes a usage in: the last good one wins, a refused one is flagged and changes no figure.
func (s *stream) count(raw []byte) {
	u := llm.OpenAIUsage(raw, s.call.ContextLimit)
	if u.Source == attempt.UsageReported {
		s.result.Usage = u
	} else if u.Flag != "" {
		s.result.Usage.Flag = u.Flag
	}
}

// lookBehind decides whether the chunk that made the answer whole takes the metadata, or one behind it.
// Usage nobody asked for comes behind it, and what the metadata says of cost hangs on it, so that is
// waited for, shortly.
func (s *stream) lookBehind(c provider.Chunk) provider.Chunk {
	if s.result.Usage.Source == attempt.UsageReported { // it came before
		s.spliced = true
		return c
	}
	asked := s.call.Facts.IncludeUsage
	at := c.SpliceAt
	c.SpliceAt = 0
	s.last = append(s.last[:0], c.Data...)
	c.Data = s.last
	if s.arrives(graceFor) {
		s.queue, s.queued = s.one()
		c.More = s.queued
		if s.spliced || !s.whole {
			c.Finish = s.whole
			return c
		}
		asked = false // whatever came was no usage, or none that is shown
	}
	if !asked {
		c.SpliceAt, s.spliced = at, true
	}
	return c
}

// arrives waits for the next event to have been read.
func (s *stream) arrives(within time.Duration) bool {
	if s.reader.Buffered() {
		return true
	}
	ahead := make(chan read, 1)
	reader := s.reader
	go func() {
		e, err := reader.Next()
		ahead <- read{e, err}
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case r := <-ahead:
		ahead <- r
		s.ahead = ahead
		return true
	case <-timer.C:
		s.ahead = ahead
		return false
	}
}
