package fold

import (
	"time"

	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// regionMinimum is how many attempts of its own a region needs to be judged by them.
const regionMinimum = 20

// Metrics are the figures of one candidate. A nil one is not known.
type Metrics struct {
	Uptime       *float64 // percent, before the rule for small counts
	Availability *float64 // percent: uptime without 429 and geographic 403
	Throughput   *float64 // output tokens/s
	Latency      *float64 // ms to first token, mean
	Attempts     int64    // unweighted, client errors left out
}

// ProfileOf is the profile a history is served by.
func ProfileOf(h resource.History) snapshot.Profile {
	return snapshot.NewProfile(h.WindowMinutes, h.Tier1Minutes, h.Tier2Minutes)
}

// Weigh turns the tiers of one key into metrics. E is never more than N: sums of both are weighed
// alike, tier by tier.
func Weigh(row snapshot.Row, h resource.History) Metrics {
	weights := [snapshot.TierCount]float64{h.Tier1Weight, h.Tier2Weight, h.Tier3Weight}
	var counted, errors, excused, tokens, seconds, firsts, waited float64
	var m Metrics
	for i := range row.Tier {
		s, w := &row.Tier[i], weights[i]
		m.Attempts += s.Counted()
		counted += w * float64(s.Counted())
		errors += w * float64(s.Errors)
		excused += w * float64(s.RateLimited+s.GeoBlocked)
		tokens += w * float64(s.ThroughputTokens)
		seconds += w * float64(s.ThroughputUS) / 1e6
		firsts += w * float64(s.TTFTCount)
		waited += w * float64(s.TTFTUS) / 1e3
	}
	if counted > 0 {
		m.Uptime = percent(errors, counted)
		m.Availability = percent(errors-excused, counted)
	}
	if seconds > 0 && tokens > 0 {
		v := tokens / seconds
		m.Throughput = &v
	}
	if firsts > 0 {
		v := waited / firsts
		m.Latency = &v
	}
	return m
}

func percent(errors, counted float64) *float64 {
	v := 100 - 100*min(max(errors, 0), counted)/counted
	return &v
}

// Shift is what row, whose tiers were cut at a snapshot's as_of, is when the snapshot has the given
// age: a tier moves down when the age has passed its bound, and is forgotten past the window.
func Shift(row snapshot.Row, h resource.History, age time.Duration) snapshot.Row {
	out := snapshot.Row{Key: row.Key}
	to, ok := bounds(h).Tier(age)
	if !ok {
		return out
	}
	for from := range row.Tier {
		out.Tier[max(from, to)].Add(row.Tier[from])
	}
	return out
}

// Total is the unweighted sum of all tiers.
func Total(row snapshot.Row) snapshot.Sums {
	out := row.Tier[0]
	for _, s := range row.Tier[1:] {
		out.Add(s)
	}
	return out
}

// AddRow makes row the sums of both, tier by tier. The key stays.
func AddRow(row *snapshot.Row, o snapshot.Row) {
	for i := range row.Tier {
		row.Tier[i].Add(o.Tier[i])
	}
}

// bounds is ProfileOf without the name.
func bounds(h resource.History) snapshot.Profile {
	return snapshot.Profile{WindowMinutes: h.WindowMinutes, Tier1Minutes: h.Tier1Minutes, Tier2Minutes: h.Tier2Minutes}
}
