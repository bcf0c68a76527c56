package openai

import (
	"bytes"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
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
	asked := s.Call.Facts.IncludeUsage
	if p.count == 0 && hasUsage && !asked {
		return c, false
	}
	if p.first != "" {
		s.result.FinishReason = p.first
	}
	c.Output = p.output
	if p.output {
		s.result.Output = true
		s.Put()
	}
	was := s.Whole
	if s.Whole = p.whole(); s.Whole {
		c.Finish = p.finished && int64(len(p.choices)) >= s.Call.Facts.N
		if !was {
			s.Complete()
		}
	} else if was {
		s.Watch.Pause()
		s.Source.Waiting = true
	}
	takes := s.Whole && !s.spliced && hasUsage && (c.Finish || p.count == 0) // the metadata
	mayTake := c.Finish && !s.spliced                                        // lookBehind decides
	c.OwnMetadata = p.edit(&p.edits, e.Data, s.model, !asked)
	c.Data = s.bytes(e, takes || mayTake, &c.SpliceAt)
	s.spliced = s.spliced || takes
	c.More = s.Reader.Buffered()
	return c, true
}

// bytes is the event for the client: as it came, or with the chunk's edits. spliceAt is set if asked for.
func (s *stream) bytes(e *sse.Event, splice bool, spliceAt *int) []byte {
	p, at := &s.chunk, e.At
	if len(p.edits) == 0 && (!splice || e.Lines == 1) {
		if splice {
			*spliceAt = at + p.end - 1
		}
		return s.complete(e)
	}
	s.out, at = wire.Rewrite(s.out[:0], e, p.edits)
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
	u := llm.OpenAIUsage(raw, s.Call.ContextLimit)
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
	asked := s.Call.Facts.IncludeUsage
	at := c.SpliceAt
	c.SpliceAt = 0
	s.last = append(s.last[:0], c.Data...)
	c.Data = s.last
	if s.arrives(graceFor) {
		s.queue, s.queued = s.one()
		c.More = s.queued
		if s.spliced || !s.Whole {
			c.Finish = s.Whole
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
	if s.Reader.Buffered() {
		return true
	}
	ahead := make(chan read, 1)
	reader := s.Reader
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
