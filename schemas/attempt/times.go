package attempt

import (
	"strconv"
	"time"
)

func (d *decoder) time() time.Time {
	if d.err != nil || d.null() {
		return time.Time{}
	}
	at := d.pos
	text := d.string()
	if d.err != nil {
		return time.Time{}
	}
	if t, ok := parseUTC(text); ok {
		return t
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.pos = at
		d.fail("expected a time like 2026-01-02T15:04:05.123456Z, found " + strconv.Quote(text[:min(len(text), 40)]))
		return time.Time{}
	}
	return t.UTC()
}

// parseUTC reads the layout that Append writes; ok is false for every other.
func parseUTC(s string) (t time.Time, ok bool) {
	n := len(s)
	if n < 20 || n > 30 || s[n-1] != 'Z' || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return t, false
	}
	year, month, day := decimal(s[0:4]), decimal(s[5:7]), decimal(s[8:10])
	hour, minute, second := decimal(s[11:13]), decimal(s[14:16]), decimal(s[17:19])
	nanos := 0
	if n > 20 {
		if s[19] != '.' || n == 21 {
			return t, false
		}
		if nanos = decimal(s[20 : n-1]); nanos < 0 {
			return t, false
		}
		for i := n - 21; i < 9; i++ {
			nanos *= 10
		}
	}
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	return t, t.Day() == day // the 31st of a month without one is time.Parse's to refuse
}

// decimal returns the value of up to nine digits, or -1.
func decimal(s string) int {
	v := 0
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return -1
		}
		v = v*10 + int(c)
	}
	return v
}
