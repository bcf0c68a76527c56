package state

import "time"

// Widths of the slots that limits are counted in (pipeline.md 18).
const (
	MinuteSlot = time.Second     // of limits per minute
	DaySlot    = 5 * time.Minute // of limits per day
)

// Origin is who counted: a process of a node. A node that starts again is another origin, so that a
// count only ever grows.
type Origin struct{ Node, Start string }

// CounterKey names one count: what one origin admitted under one limit in one slot.
type CounterKey struct {
	Origin Origin
	Limit  string
	Slot   int64 // the slot's beginning, in seconds since 1970
}

// Counters is what all nodes admitted, as far as this one has heard: a table of grow-only counts. To
// merge is to take the larger count of each key, so that records may arrive late, twice and in any
// order. It is exact and drops nothing before it is told to. It is not safe for concurrent use.
type Counters struct {
	counts map[CounterKey]int64
	sums   map[limitSlot]int64
}

type limitSlot struct {
	limit string
	slot  int64
}

// NewCounters returns an empty table.
func NewCounters() *Counters {
	return &Counters{counts: map[CounterKey]int64{}, sums: map[limitSlot]int64{}}
}

// SlotAt is the slot of width that t is in.
func SlotAt(t time.Time, width time.Duration) int64 {
	w := int64(width / time.Second)
	s := t.Unix()
	return s - ((s%w)+w)%w
}

// Add counts n more of this process's own and returns the count to publish.
func (c *Counters) Add(k CounterKey, n int64) int64 {
	c.Merge(k, c.counts[k]+n)
	return c.counts[k]
}

// Merge takes in a count that was published; one that is not larger changes nothing.
func (c *Counters) Merge(k CounterKey, count int64) {
	if more := count - c.counts[k]; more > 0 {
		c.counts[k] = count
		c.sums[limitSlot{k.Limit, k.Slot}] += more
	}
}

// Sum is what all origins admitted under a limit in the window that ends now. The slot in which the
// window begins counts whole.
func (c *Counters) Sum(limit string, now time.Time, window, width time.Duration) int64 {
	var sum int64
	last := SlotAt(now, width)
	for slot := SlotAt(now.Add(-window), width); slot <= last; slot += int64(width / time.Second) {
		sum += c.sums[limitSlot{limit, slot}]
	}
	return sum
}

// Forget drops slots that began before a time.
func (c *Counters) Forget(before time.Time) {
	for k := range c.counts {
		if k.Slot < before.Unix() {
			delete(c.counts, k)
			delete(c.sums, limitSlot{k.Limit, k.Slot})
		}
	}
}
