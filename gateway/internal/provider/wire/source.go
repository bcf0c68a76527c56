package wire

import (
	"io"
	"time"

	"turnout/gateway/internal/provider"
)

// Source counts waiting for the upstream against the Idle limit, once output has begun, and knows
// whether the body was read to its end.
type Source struct {
	R       io.Reader
	Watch   *provider.Watch
	Idle    time.Duration
	Left    time.Duration // of the idle limit
	Waiting bool          // the idle limit is in force
	Ended   bool
}

func (s *Source) Read(p []byte) (int, error) {
	if !s.Waiting || s.Idle <= 0 {
		n, err := s.R.Read(p)
		s.Ended = err == io.EOF
		return n, err
	}
	before := s.Watch.Elapsed()
	s.Watch.For(provider.LimitIdle, s.Left, s.Idle)
	n, err := s.R.Read(p)
	s.Ended = err == io.EOF
	if s.Waiting {
		s.Watch.Pause()
		s.Left -= s.Watch.Elapsed() - before
	}
	return n, err
}
