package state

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

func TestCooldowns(t *testing.T) {
	type step struct {
		at    float64
		do    string // ok fail 429 neutral | probe: Begin must say probe | busy: Begin must not
		after time.Duration
		phase Phase
		ends  float64 // of the cooldown, where the phase is not Ready
	}
	many := func(n int, do string) []step {
		out := make([]step, n)
		for i := range out {
			out[i] = step{do: do}
		}
		return out
	}
	for name, steps := range map[string][]step{
		"three in a row of three":          append(many(2, "fail"), step{at: 1, do: "fail", phase: Cooling, ends: 6}),
		"three in a row after twenty good": append(append(many(20, "ok"), many(3, "fail")...), step{at: 1, do: "fail"}),
		"five in a row after twenty good":  append(append(many(20, "ok"), many(4, "fail")...), step{at: 1, do: "fail", phase: Cooling, ends: 6}),
		"half is not more than half":       append(append(many(3, "ok"), many(2, "fail")...), step{at: 1, do: "fail"}),
		"client errors count for nothing":  append(append(many(2, "fail"), many(30, "neutral")...), step{at: 1, do: "fail", phase: Cooling, ends: 6}),
		"429 without a wait":               {{at: 1, do: "429", phase: Cooling, ends: 6}},
		"429 with one":                     {{at: 1, do: "429", after: 30 * time.Second, phase: Cooling, ends: 31}},
		"429 with one too long":            {{at: 1, do: "429", after: time.Hour, phase: Cooling, ends: 61}},
		"a shorter 429 changes nothing":    {{at: 1, do: "429", after: 30 * time.Second, phase: Cooling, ends: 31}, {at: 2, do: "429", phase: Cooling, ends: 31}},
		"an old success proves nothing":    append(many(2, "fail"), step{at: 1, do: "fail", phase: Cooling, ends: 6}, step{at: 2, do: "ok", phase: Cooling, ends: 6}),
		"failed probes double": append(many(2, "fail"), step{at: 0, do: "fail", phase: Cooling, ends: 5},
			step{at: 5, do: "probe", phase: Probing, ends: 5}, step{at: 5, do: "busy", phase: Probing, ends: 5}, step{at: 6, do: "probe failed", phase: Cooling, ends: 16},
			step{at: 16, do: "probe", phase: Probing, ends: 16}, step{at: 16, do: "probe failed", phase: Cooling, ends: 31},
			step{at: 31, do: "probe", phase: Probing, ends: 31}, step{at: 31, do: "probe failed", phase: Cooling, ends: 46},
			step{at: 50, do: "probe", phase: Probing, ends: 46}, step{at: 50, do: "probe ok"}),
		"a probe without a result leaves it due": {{at: 0, do: "429", phase: Cooling, ends: 5}, {at: 5, do: "probe", phase: Probing, ends: 5}, {at: 6, do: "probe neutral", phase: Due, ends: 5}, {at: 7, do: "probe", phase: Probing, ends: 5}},
		"a last resort that works":               {{at: 0, do: "429", phase: Cooling, ends: 5}, {at: 1, do: "forced ok"}},
		"a last resort that fails":               append(many(2, "fail"), step{at: 0, do: "fail", phase: Cooling, ends: 5}, step{at: 1, do: "forced failed", phase: Cooling, ends: 5}),
	} {
		t.Run(name, func(t *testing.T) {
			var h Health
			for i, s := range steps {
				now := at(s.at)
				switch s.do {
				case "ok":
					h.End(now, Success, 0, false, false)
				case "fail":
					h.End(now, Failure, 0, false, false)
				case "429":
					h.End(now, RateLimited, s.after, false, false)
				case "neutral":
					h.End(now, Neutral, 0, false, false)
				case "probe", "busy":
					if got := h.Begin(now); got != (s.do == "probe") {
						t.Fatalf("step %d: Begin said probe=%v", i, got)
					}
				case "probe ok":
					h.End(now, Success, 0, true, false)
				case "probe failed":
					h.End(now, Failure, 0, true, false)
				case "probe neutral":
					h.End(now, Neutral, 0, true, false)
				case "forced ok":
					h.End(now, Success, 0, false, true)
				case "forced failed":
					h.End(now, Failure, 0, false, true)
				}
				if got := h.Phase(now); got != s.phase {
					t.Fatalf("step %d (%s at %v): phase %d, want %d", i, s.do, s.at, got, s.phase)
				}
				if _, until := h.Cooldown(); s.phase != Ready && !until.Equal(at(s.ends)) {
					t.Fatalf("step %d (%s): ends %v, want %v", i, s.do, until, at(s.ends))
				}
			}
		})
	}
}

// Whatever happens: no cooldown is longer than its bound, a key that is cooling becomes usable again
// by time alone, and at most one probe is under way.
func TestHealthLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Health{
			Base: time.Duration(rapid.IntRange(0, 20).Draw(t, "base")) * time.Second,
			Max:  time.Duration(rapid.IntRange(0, 40).Draw(t, "max")) * time.Second,
		}
		now, probing := epoch, false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			r := Result(rapid.IntRange(int(Neutral), int(RateLimited)).Draw(t, "result"))
			wait := time.Duration(rapid.IntRange(0, 100).Draw(t, "wait")) * time.Second
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				phase := h.Phase(now)
				probe := h.Begin(now)
				if probe && (probing || phase != Due) {
					t.Fatalf("a probe in phase %d, another under way: %v", phase, probing)
				}
				probing = probing || probe
			case 1:
				if probing {
					h.End(now, r, wait, true, false)
					probing = false
				}
			case 2:
				h.End(now, r, wait, false, false)
			case 3:
				h.Impose(now, CauseErrors, now.Add(wait), wait)
			}
			if h.Phase(now) == Cooling {
				_, until := h.Cooldown()
				if limit := max(maxRetryAfter, h.bound(), 100*time.Second); until.Sub(now) > limit {
					t.Fatalf("cools for %v", until.Sub(now))
				}
				if p := h.Phase(until); p != Due && p != Probing {
					t.Fatalf("phase %d when the cooldown is over", p)
				}
			}
		}
	})
}

func TestKeysShareWhatTheyLearn(t *testing.T) {
	var a, b *Keys
	now := epoch
	a = NewKeys(func(id KeyID, c Cooldown) { b.Impose(now, id, c) })
	b = NewKeys(nil)
	id := KeyID{Provider: "p", Region: "r", Secret: "s"}
	other := KeyID{Provider: "p", Region: "other", Secret: "s"}
	for range 3 {
		use, ok := a.Get(id, 0, 0).Begin(now, false)
		if !ok {
			t.Fatal("a healthy key refused")
		}
		use.End(now, Failure, 0)
	}
	if _, ok := a.Get(id, 0, 0).Begin(now, false); ok {
		t.Fatal("a cooling key was given out")
	}
	if got := b.Get(id, 0, 0).Phase(now); got != Cooling {
		t.Fatalf("the other node: phase %d, although it only used the key after it had heard", got)
	}
	if got := b.Get(other, 0, 0).Phase(now); got != Ready {
		t.Fatalf("another region cools as well: %d", got)
	}
	use, _ := a.Get(other, 0, 0).Begin(now, false)
	use.End(now, InvalidKey, 0)
	for _, k := range []*Key{a.Get(id, 0, 0), a.Get(other, 0, 0), b.Get(id, 0, 0), b.Get(other, 0, 0)} {
		if got := k.Phase(now.Add(time.Hour)); got != Removed {
			t.Fatalf("an invalid key in phase %d", got)
		}
	}
	if got := b.Get(KeyID{Provider: "p", Secret: "new"}, 0, 0).Phase(now); got != Ready {
		t.Fatalf("the changed key is in phase %d", got)
	}
}

func TestPickRotates(t *testing.T) {
	ks := NewKeys(nil)
	keys := []*Key{ks.Get(KeyID{Secret: "a"}, 0, 0), ks.Get(KeyID{Secret: "b"}, 0, 0), ks.Get(KeyID{Secret: "c"}, 0, 0)}
	for turn := range uint64(6) {
		if got := Pick(keys, epoch, turn, nil); got != int(turn%3) {
			t.Fatalf("turn %d: key %d", turn, got)
		}
	}
	busy, _ := keys[0].Begin(epoch, false)
	if got := Pick(keys, epoch, 0, nil); got != 1 {
		t.Fatalf("the busy key was not passed over: %d", got)
	}
	busy.End(epoch, Success, 0)
	shaky, _ := keys[1].Begin(epoch, false)
	shaky.End(epoch, Failure, 0)
	if got := Pick(keys, epoch, 1, nil); got != 2 {
		t.Fatalf("the shaky key was not passed over: %d", got)
	}
	limited, _ := keys[2].Begin(epoch, false)
	limited.End(epoch, RateLimited, time.Second)
	if got := Pick(keys, epoch, 2, nil); got != 0 {
		t.Fatalf("the cooling key was not passed over: %d", got)
	}
	if got := Pick(keys, epoch.Add(time.Second), 0, nil); got != 2 {
		t.Fatalf("the key that is due was not probed first: %d", got)
	}
	if got := Pick(keys, epoch, 0, func(int) bool { return true }); got != -1 {
		t.Fatalf("skipped keys were given out: %d", got)
	}
}

// Two nodes find a cooldown of one key at the same moment, of different lengths: each kept the longer, a
// node started later had the last one of the log. All hold the last one.
func TestTheLastCooldownOfTheLogCounts(t *testing.T) {
	now := epoch
	id := KeyID{Provider: "p", Secret: "s"}
	long := Cooldown{Cause: CauseRateLimit, Until: now.Add(time.Minute), Length: time.Minute}
	short := Cooldown{Cause: CauseErrors, Until: now.Add(5 * time.Second), Length: 5 * time.Second}
	both, late := NewKeys(nil), NewKeys(nil)
	key := both.Get(id, 0, 0)
	both.Impose(now, id, long)
	both.Impose(now, id, short)
	late.Impose(now, id, short)
	if got, want := key.Cooldown(), late.Get(id, 0, 0).Cooldown(); got != want {
		t.Errorf("%+v on a node that heard both, %+v on one started now", got, want)
	}
}
