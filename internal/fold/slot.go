package fold

import (
	"time"

	"turnout/schemas/attempt"
)

const (
	// SlotSeconds is the length of a slot.
	SlotSeconds = 10
	// futureGrace is how long a slot that has not ended yet counts as of age 0: clocks differ.
	futureGrace = time.Minute
)

// SlotOf returns the beginning of the slot that t is in, in seconds since 1970.
func SlotOf(t time.Time) int64 {
	s := t.Unix()
	return s - mod(s, SlotSeconds)
}

// HourOf returns the beginning of the hour that t is in, in seconds since 1970.
func HourOf(t time.Time) int64 {
	s := t.Unix()
	return s - mod(s, 3600)
}

func mod(a, b int64) int64 { return (a%b + b) % b }

// Age is how long before asOf the slot ended, at least 0. ok is false for a slot that lies more than
// a minute in the future: it is left out.
func Age(slot int64, asOf time.Time) (age time.Duration, ok bool) {
	age = asOf.Sub(time.Unix(slot+SlotSeconds, 0))
	return max(age, 0), age >= -futureGrace
}

// EventTime is when an attempt counts: its end, or its start if it never saw one.
func EventTime(e *attempt.Event) time.Time {
	if e.FinishedAt.IsZero() {
		return e.StartedAt
	}
	return e.FinishedAt
}
