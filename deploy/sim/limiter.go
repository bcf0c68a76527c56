package sim

import (
	"sync"
	"time"
)

// limiter is a bucket of requests that refills evenly.
type limiter struct {
	mu     sync.Mutex
	rpm    int
	tokens float64
	at     time.Time
}

// admit takes a request out of the bucket, or says how long until there is one.
func (l *limiter) admit(rpm int, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rpm != rpm {
		l.rpm, l.tokens, l.at = rpm, float64(rpm), now
	}
	perSecond := float64(rpm) / 60
	l.tokens = min(float64(rpm), l.tokens+max(0, now.Sub(l.at).Seconds())*perSecond)
	l.at = now
	if l.tokens < 1 {
		return time.Duration((1 - l.tokens) / perSecond * float64(time.Second)), false
	}
	l.tokens--
	return 0, true
}
