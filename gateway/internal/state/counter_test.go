package state

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type published struct {
	key   CounterKey
	count int64
}

// Whatever order records arrive in, and however often: all nodes come to the same counts, which are
// what was admitted, and no count ever shrinks.
func TestCounterLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log []published
		admitted := map[limitSlot]int64{}
		own := map[Origin]*Counters{}
		for range rapid.IntRange(1, 60).Draw(t, "adds") {
			origin := Origin{fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "node")), fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "start"))}
			k := CounterKey{origin, fmt.Sprint("l", rapid.IntRange(0, 1).Draw(t, "limit")), int64(rapid.IntRange(0, 9).Draw(t, "slot"))}
			if own[origin] == nil {
				own[origin] = NewCounters()
			}
			n := int64(rapid.IntRange(1, 5).Draw(t, "n"))
			admitted[limitSlot{k.Limit, k.Slot}] += n
			log = append(log, published{k, own[origin].Add(k, n)})
		}
		a, b := NewCounters(), NewCounters()
		for _, p := range rapid.Permutation(append(log, log...)).Draw(t, "order at a") {
			before := a.counts[p.key]
			a.Merge(p.key, p.count)
			if a.counts[p.key] < before {
				t.Fatalf("%+v shrank", p.key)
			}
		}
		for _, p := range rapid.Permutation(log).Draw(t, "order at b") {
			b.Merge(p.key, p.count)
		}
		if !maps.Equal(a.counts, b.counts) || !maps.Equal(a.sums, b.sums) || !maps.Equal(a.sums, admitted) {
			t.Fatalf("a %v, b %v, admitted %v", a.sums, b.sums, admitted)
		}
	})
}

func TestCounterWindow(t *testing.T) {
	c := NewCounters()
	me := Origin{"n", "1"}
	for s := range int64(120) {
		c.Add(CounterKey{me, "rpm", s}, 1)
	}
	if got := c.Sum("rpm", time.Unix(100, 500_000_000), time.Minute, MinuteSlot); got != 61 {
		t.Errorf("a minute holds %d, want 61: the oldest slot counts whole", got)
	}
	c.Forget(time.Unix(100, 0))
	if got := c.Sum("rpm", time.Unix(119, 0), time.Minute, MinuteSlot); got != 20 || len(c.sums) != 20 {
		t.Errorf("after forgetting %d in %d slots", got, len(c.sums))
	}
}
