package llm

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Azure, OpenAI, Groq and Google say in words how long to wait, Google in details[].retryDelay too, and
// not all of them in a header as well.
var (
	waiting = regexp.MustCompile(`(?:retry|try again|reset) (?:after|in) ((?:[0-9]+(?:\.[0-9]+)? ?[a-z]+ ?)+)`)
	span    = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?) ?([a-z]+)`)
)

var units = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond, "s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "h": time.Hour, "hour": time.Hour,
}

// wait is how long an error's body asks to wait; 0 if it asks for nothing.
func (b *errorBody) wait() time.Duration {
	if b.retryDelay != "" && b.retryDelay[0] != '-' {
		if d := spans(b.retryDelay); d > 0 {
			return d
		}
	}
	if m := waiting.FindStringSubmatch(strings.ToLower(b.message)); m != nil {
		return spans(m[1])
	}
	return 0
}

// spans adds up times such as 1m30.5s or 20 seconds, up to the first word that is no unit.
func spans(text string) (sum time.Duration) {
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		word := m[2]
		unit, ok := units[word]
		if !ok {
			unit, ok = units[strings.TrimSuffix(word, "s")]
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if !ok || err != nil {
			break
		}
		if n > float64((maxRetryAfter-sum)/unit) {
			return maxRetryAfter
		}
		sum += time.Duration(n * float64(unit))
	}
	return sum
}
