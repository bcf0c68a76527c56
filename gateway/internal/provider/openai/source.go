package openai

import (
	"io"
	"time"

	"turnout/gateway/internal/provider"
)

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
