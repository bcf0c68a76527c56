package fold

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/schemas/attempt"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

var (
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	standard = resource.History{WindowMinutes: 60, Tier1Minutes: 1, Tier2Minutes: 5, Tier1Weight: 10, Tier2Weight: 3, Tier3Weight: 1}
)

func at(us int64) *int64 { return &us }

func TestClassify(t *testing.T) {
	base := attempt.Event{Provider: "p", Model: "m", Region: "eu", Endpoint: attempt.EndpointChat, OrganizationID: "acme", CredentialSource: attempt.Platform}
	for _, c := range []struct {
		name   string
		change func(*attempt.Event)
		want   *snapshot.Sums // nil: adds nothing
	}{
		{"completed", func(e *attempt.Event) { e.Outcome = attempt.Completed }, &snapshot.Sums{Attempts: 1}},
		{"content filter is no error", func(e *attempt.Event) { e.Outcome = attempt.ContentFilter }, &snapshot.Sums{Attempts: 1}},
		{"gateway error", func(e *attempt.Event) { e.Outcome = attempt.GatewayError; e.StatusCode = 401 }, &snapshot.Sums{Attempts: 1, Errors: 1}},
		{"upstream error", func(e *attempt.Event) { e.Outcome = attempt.UpstreamError; e.StatusCode = 500 }, &snapshot.Sums{Attempts: 1, Errors: 1}},
		{"rate limited", func(e *attempt.Event) { e.Outcome = attempt.UpstreamError; e.StatusCode = 429 }, &snapshot.Sums{Attempts: 1, Errors: 1, RateLimited: 1}},
		{"geographic 403", func(e *attempt.Event) { e.Outcome = attempt.GatewayError; e.StatusCode = 403; e.GeoBlocked = true }, &snapshot.Sums{Attempts: 1, Errors: 1, GeoBlocked: 1}},
		{"timeout", func(e *attempt.Event) { e.Outcome = attempt.UpstreamTimeout }, &snapshot.Sums{Attempts: 1, Errors: 1, Timeouts: 1}},
		{"network error", func(e *attempt.Event) { e.Outcome = attempt.NetworkError }, &snapshot.Sums{Attempts: 1, Errors: 1}},
		{"network error that was retried", func(e *attempt.Event) { e.Outcome = attempt.NetworkError; e.WillRetry = true }, &snapshot.Sums{Attempts: 1, Errors: 1}},
		{"client error", func(e *attempt.Event) { e.Outcome = attempt.ClientError; e.StatusCode = 429 }, &snapshot.Sums{Attempts: 1, ClientErrors: 1}},
		{"interrupted", func(e *attempt.Event) { e.Outcome = attempt.Interrupted }, nil},
		{"canceled before output", func(e *attempt.Event) { e.Outcome = attempt.Canceled }, nil},
		{"canceled after output", func(e *attempt.Event) { e.Outcome = attempt.Canceled; e.OutputTokens = 3; e.DurationUS = 9 }, &snapshot.Sums{Attempts: 1, Canceled: 1, OutputTokens: 3, ThroughputTokens: 3, ThroughputUS: 9}},
		{"own key", func(e *attempt.Event) { e.Outcome = attempt.Completed; e.CredentialSource = attempt.BYOK }, nil},
		{"an outcome of a later version", func(e *attempt.Event) { e.Outcome = "evaporated" }, nil},
		{"stream", func(e *attempt.Event) {
			e.Outcome, e.Stream, e.TTFTUS, e.DurationUS, e.OutputTokens, e.InputTokens, e.CachedInputTokens = attempt.Completed, true, at(20_000), 1_000_000, 50, 100, 40
		}, &snapshot.Sums{Attempts: 1, InputTokens: 100, CachedTokens: 40, OutputTokens: 50, ThroughputTokens: 50, ThroughputUS: 1_000_000, TTFTCount: 1, TTFTUS: 20_000, TTFTHistogram: [snapshot.TTFTBuckets]int64{1: 1}}},
		{"time to first token of a plain answer is no latency", func(e *attempt.Event) { e.Outcome, e.TTFTUS = attempt.Completed, at(5) }, &snapshot.Sums{Attempts: 1}},
	} {
		e := base
		c.change(&e)
		key, sums, ok := Classify(&e)
		if ok != (c.want != nil) {
			t.Errorf("%s: adds something: %v", c.name, ok)
			continue
		}
		if c.want != nil && (sums != *c.want || key != snapshot.Key{Provider: "p", Model: "m", Region: "eu", Class: snapshot.ClassText}) {
			t.Errorf("%s: %+v %+v", c.name, key, sums)
		}
	}
}

func TestCustomProvidersFeedTheirOrganization(t *testing.T) {
	e := attempt.Event{Provider: "mine", Model: "m", OrganizationID: "acme", CustomProvider: true, CredentialSource: attempt.BYOK, Outcome: attempt.Completed, Endpoint: attempt.EndpointEmbeddings}
	key, _, ok := Classify(&e)
	if want := (snapshot.Key{Provider: "mine", Model: "m", Class: snapshot.ClassEmbedding, Organization: "acme"}); !ok || key != want {
		t.Errorf("%+v %v", key, ok)
	}
}

func TestHistogramBounds(t *testing.T) {
	for us, want := range map[int64]int{0: 0, 15_999: 0, 16_000: 1, 31_999: 1, 32_000: 2, 16_000 << 10: 11, 1 << 50: 11} {
		if got := bucket(us); got != want {
			t.Errorf("%d us falls into bucket %d, want %d", us, got, want)
		}
	}
}

func TestUsageCountsEveryAttempt(t *testing.T) {
	failed := attempt.Event{OrganizationID: "o", ProjectID: "p", Model: "m", Provider: "a", Outcome: attempt.UpstreamError, WillRetry: true, CredentialSource: attempt.BYOK}
	done := attempt.Event{OrganizationID: "o", ProjectID: "p", Model: "m", Provider: "a", Outcome: attempt.Completed, InputTokens: 10, CachedInputTokens: 4, CacheWriteTokens: 2, CacheWrite1hTokens: 3, OutputTokens: 5, CostNanoUSD: 7}
	key, sum := ClassifyUsage(&failed)
	key2, more := ClassifyUsage(&done)
	sum.Add(more)
	if want := (Usage{Attempts: 2, Requests: 1, Successes: 1, InputTokens: 10, CachedTokens: 4, CacheWrite: 5, OutputTokens: 5, CostNanoUSD: 7}); key != key2 || sum != want {
		t.Errorf("%+v %+v", key, sum)
	}
}

func TestAge(t *testing.T) {
	slot := SlotOf(noon)
	for _, c := range []struct {
		asOf time.Time
		age  time.Duration
		ok   bool
	}{
		{noon.Add(10 * time.Second), 0, true}, {noon.Add(25 * time.Second), 15 * time.Second, true}, {noon, 0, true},
		{noon.Add(-50 * time.Second), 0, true}, {noon.Add(-51 * time.Second), 0, false},
	} {
		if age, ok := Age(slot, c.asOf); age != c.age || ok != c.ok {
			t.Errorf("as of %s: %s %v, want %s %v", c.asOf, age, ok, c.age, c.ok)
		}
	}
	if SlotOf(time.Unix(-1, 0)) != -10 || SlotOf(noon.Add(9999*time.Millisecond)) != slot || HourOf(noon.Add(59*time.Minute)) != noon.Unix() {
		t.Error("slots or hours begin elsewhere")
	}
}

// Worked by hand: tier 1 has 10 attempts with 5 errors, tier 2 has 30 with 3, tier 3 has 100 with 2
// and 10 client errors more. N = 10*10 + 3*30 + 100 = 290, E = 10*5 + 3*3 + 2 = 61,
// uptime = 100 - 6100/290 = 78.9655.
func TestWeighByHand(t *testing.T) {
	row := snapshot.Row{Tier: [snapshot.TierCount]snapshot.Sums{
		{Attempts: 10, Errors: 5, RateLimited: 2, ThroughputTokens: 100, ThroughputUS: 1_000_000, TTFTCount: 1, TTFTUS: 100_000},
		{Attempts: 30, Errors: 3, GeoBlocked: 1, ThroughputTokens: 100, ThroughputUS: 2_000_000, TTFTCount: 2, TTFTUS: 1_000_000},
		{Attempts: 110, ClientErrors: 10, Errors: 2, ThroughputTokens: 500, ThroughputUS: 10_000_000},
	}}
	m := Weigh(row, standard)
	near := func(name string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-4 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("uptime", m.Uptime, 78.9655)
	near("availability", m.Availability, 100-100*(61.0-20-3)/290)
	near("throughput", m.Throughput, (1000.0+300+500)/(10+6+10))
	near("latency", m.Latency, (10*100.0+3*1000)/(10+6))
	if m.Attempts != 140 {
		t.Errorf("attempts: %d", m.Attempts)
	}
	// The example of the fault list: 20 stream errors and 50 completions among 100 client errors.
	m = Weigh(snapshot.Row{Tier: [snapshot.TierCount]snapshot.Sums{{Attempts: 170, ClientErrors: 100, Errors: 20}}}, standard)
	near("uptime of 20 of 70", m.Uptime, 71.4286)
	if m := Weigh(snapshot.Row{Tier: [snapshot.TierCount]snapshot.Sums{{Attempts: 5, ClientErrors: 5}}}, standard); m.Uptime != nil || m.Throughput != nil || m.Latency != nil {
		t.Errorf("nothing is known of %+v", m)
	}
}

func TestShift(t *testing.T) {
	row := snapshot.Row{Tier: [snapshot.TierCount]snapshot.Sums{{Attempts: 1}, {Attempts: 10}, {Attempts: 100}}}
	for _, c := range []struct {
		age  time.Duration
		want [3]int64
	}{{0, [3]int64{1, 10, 100}}, {time.Minute, [3]int64{1, 10, 100}}, {61 * time.Second, [3]int64{0, 11, 100}}, {301 * time.Second, [3]int64{0, 0, 111}}, {time.Hour, [3]int64{0, 0, 111}}, {61 * time.Minute, [3]int64{}}} {
		got := Shift(row, standard, c.age)
		for i := range c.want {
			if got.Tier[i].Attempts != c.want[i] {
				t.Errorf("age %s: tier %d has %d attempts, want %v", c.age, i+1, got.Tier[i].Attempts, c.want)
			}
		}
	}
}

func rows(regions map[string]int64) *snapshot.Set {
	set := &snapshot.Set{Head: snapshot.Head{AsOf: noon}, Rows: map[string][]snapshot.Row{}}
	for region, n := range regions {
		row := snapshot.Row{Key: snapshot.Key{Provider: "p", Model: "m", Region: region, Class: snapshot.ClassText}}
		row.Tier[0].Attempts = n
		set.Rows[""] = append(set.Rows[""], row)
	}
	return set
}

func TestRegionsAreFoldedUntilTheyHaveTwentyAttempts(t *testing.T) {
	f := NewFigures(rows(map[string]int64{"eu": 20, "us": 19, "": 1}), "")
	n := func(region string) int64 {
		return f.Metrics(snapshot.Key{Provider: "p", Model: "m", Region: region, Class: snapshot.ClassText}, nil, standard, noon).Attempts
	}
	if n("eu") != 20 || n("us") != 40 || n("ap") != 40 || n("") != 40 {
		t.Errorf("eu %d, us %d, ap %d, none %d", n("eu"), n("us"), n("ap"), n(""))
	}
	if m := NewFigures(nil, "").Metrics(snapshot.Key{Provider: "p"}, nil, standard, noon); m.Uptime != nil || m.Attempts != 0 {
		t.Errorf("without a snapshot: %+v", m)
	}
}

func ownAttempt(id string, region string, outcome attempt.Outcome, end time.Time) *attempt.Event {
	return &attempt.Event{EventID: id, Provider: "p", Model: "m", Region: region, Endpoint: attempt.EndpointChat, CredentialSource: attempt.Platform, Outcome: outcome, FinishedAt: end}
}

func TestOwnAttemptsCountUntilASnapshotHoldsThem(t *testing.T) {
	f := NewFigures(rows(map[string]int64{"eu": 25}), "")
	key := snapshot.Key{Provider: "p", Model: "m", Region: "eu", Class: snapshot.ClassText}
	r := NewRecent()
	errors := func(now time.Time) int64 {
		total := Total(f.Row(key, r, standard, now))
		return total.Errors
	}
	r.Add(ownAttempt("a", "eu", attempt.UpstreamError, noon))
	r.Add(ownAttempt("a", "eu", attempt.UpstreamError, noon)) // known already
	r.Add(ownAttempt("b", "eu", attempt.UpstreamError, noon))
	r.Add(ownAttempt("c", "eu", attempt.Canceled, noon)) // adds nothing
	if errors(noon) != 2 || r.Len() != 2 {
		t.Fatalf("%d errors, %d held", errors(noon), r.Len())
	}
	r.Ack(ownAttempt("a", "eu", attempt.UpstreamError, noon), 0, 10)
	r.Ack(ownAttempt("nobody", "eu", attempt.UpstreamError, noon), 0, 11)
	r.Cover(map[int]int64{0: 9, 1: 99}, noon, time.Hour)
	if errors(noon) != 2 {
		t.Errorf("covered too early: %d", errors(noon))
	}
	r.Cover(map[int]int64{0: 10}, noon, time.Hour)
	if errors(noon) != 1 || r.Len() != 1 {
		t.Errorf("after the snapshot: %d errors, %d held", errors(noon), r.Len())
	}
	r.Cover(nil, noon.Add(2*time.Hour), time.Hour) // b was never acknowledged
	if r.Len() != 0 || len(r.slots) != 0 || len(r.folded) != 0 {
		t.Errorf("left behind: %d, %v, %v", r.Len(), r.slots, r.folded)
	}
}

// The laws. Sums are compared whole, so every counter is under them.

func events(t *rapid.T) []*attempt.Event {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *attempt.Event {
		e := ownAttempt("", rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"), rapid.SampledFrom([]attempt.Outcome{
			attempt.Completed, attempt.ContentFilter, attempt.GatewayError, attempt.UpstreamError, attempt.UpstreamTimeout, attempt.NetworkError, attempt.ClientError, attempt.Canceled, attempt.Interrupted,
		}).Draw(t, "outcome"), noon.Add(-time.Duration(rapid.IntRange(-100, 4000).Draw(t, "age"))*time.Second))
		e.StatusCode = rapid.SampledFrom([]int{0, 200, 403, 429, 500}).Draw(t, "status")
		e.Stream = rapid.Bool().Draw(t, "stream")
		e.OutputTokens, e.DurationUS = rapid.Int64Range(0, 1000).Draw(t, "output"), rapid.Int64Range(0, 1e7).Draw(t, "duration")
		if rapid.Bool().Draw(t, "first") {
			e.TTFTUS = at(rapid.Int64Range(0, 1e8).Draw(t, "ttft"))
		}
		return e
	}), 0, 30).Draw(t, "events")
}

type table map[snapshot.Key]map[int64]snapshot.Sums

func count(list []*attempt.Event) table {
	out := table{}
	for _, e := range list {
		key, sums, ok := Classify(e)
		if !ok {
			continue
		}
		if out[key] == nil {
			out[key] = map[int64]snapshot.Sums{}
		}
		s := out[key][SlotOf(e.FinishedAt)]
		s.Add(sums)
		out[key][SlotOf(e.FinishedAt)] = s
	}
	return out
}

func equal(a, b table) bool {
	for _, pair := range [][2]table{{a, b}, {b, a}} {
		for key, slots := range pair[0] {
			for slot, sums := range slots {
				if pair[1][key][slot] != sums {
					return false
				}
			}
		}
	}
	return true
}

func TestOrderAndGroupingDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := events(t)
		whole := count(list)
		shuffled := append([]*attempt.Event(nil), list...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !equal(whole, count(shuffled)) {
			t.Fatal("order matters")
		}
		cut := rapid.IntRange(0, len(list)).Draw(t, "cut")
		parts, second := count(list[:cut]), count(list[cut:])
		for key, slots := range second {
			if parts[key] == nil {
				parts[key] = map[int64]snapshot.Sums{}
			}
			for slot, sums := range slots {
				s := parts[key][slot]
				s.Add(sums)
				parts[key][slot] = s
			}
		}
		if !equal(whole, parts) {
			t.Fatal("grouping matters")
		}
	})
}

func TestSumsAreAMonoid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (s snapshot.Sums) {
			for _, e := range events(t) {
				if _, more, ok := Classify(e); ok {
					s.Add(more)
				}
			}
			return s
		}
		sum := func(list ...snapshot.Sums) (s snapshot.Sums) {
			for _, o := range list {
				s.Add(o)
			}
			return s
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		if sum(a, b) != sum(b, a) || sum(sum(a, b), c) != sum(a, sum(b, c)) || sum(a) != a || sum(a, a.Negated()) != (snapshot.Sums{}) {
			t.Fatalf("%+v %+v %+v", a, b, c)
		}
		if a.Errors+a.ClientErrors > a.Attempts || a.RateLimited+a.GeoBlocked > a.Errors || a.Timeouts > a.Errors || a.Counted() < a.Errors {
			t.Fatalf("inconsistent: %+v", a)
		}
		var inHistogram int64
		for _, n := range a.TTFTHistogram {
			inHistogram += n
		}
		if inHistogram != a.TTFTCount {
			t.Fatalf("histogram holds %d of %d", inHistogram, a.TTFTCount)
		}
	})
}

// A node that adds what a snapshot lacks sees what a snapshot of everything would show, wherever the
// watermark falls.
// Own attempts are held in a shorter form, from which what they add has to come back whole.
func TestShortFormLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, e := range events(t) {
			if _, sums, ok := Classify(e); ok && pack(sums).sums() != sums {
				t.Fatalf("%+v came back as %+v", sums, pack(sums).sums())
			}
		}
	})
}

func TestSnapshotPlusOwnIsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := events(t)
		mark := rapid.IntRange(-1, len(list)).Draw(t, "watermark")
		acked := rapid.IntRange(0, len(list)).Draw(t, "acked")
		now := noon
		tiers := func(list []*attempt.Event) *snapshot.Set {
			set := &snapshot.Set{Head: snapshot.Head{AsOf: now}, Rows: map[string][]snapshot.Row{}}
			for key, slots := range count(list) {
				row := snapshot.Row{Key: key}
				for slot, sums := range slots {
					if age, ok := Age(slot, now); ok {
						if tier, ok := bounds(standard).Tier(age); ok {
							row.Tier[tier].Add(sums)
						}
					}
				}
				set.Rows[""] = append(set.Rows[""], row)
			}
			return set
		}
		r := NewRecent()
		for i, e := range list {
			e.EventID = string(rune('A' + i))
			r.Add(e)
			if i < acked || i <= mark { // what a snapshot holds was acknowledged
				r.Ack(e, 0, int64(i))
			}
		}
		r.Cover(map[int]int64{0: int64(mark)}, now, 2*time.Hour)
		part, whole := NewFigures(tiers(list[:min(mark+1, len(list))]), ""), NewFigures(tiers(list), "")
		for _, region := range []string{"eu", "us"} {
			key := snapshot.Key{Provider: "p", Model: "m", Region: region, Class: snapshot.ClassText}
			if a, b := part.Row(key, r, standard, now), whole.Row(key, nil, standard, now); a != b {
				t.Fatalf("%s: %+v, want %+v", region, a, b)
			}
		}
	})
}

func BenchmarkMetrics(b *testing.B) {
	f, r := NewFigures(rows(map[string]int64{"eu": 25, "us": 3}), ""), NewRecent()
	for i := range 200 {
		r.Add(ownAttempt(string(rune(i)), "eu", attempt.Completed, noon.Add(-time.Duration(i/3)*time.Second)))
	}
	key := snapshot.Key{Provider: "p", Model: "m", Region: "eu", Class: snapshot.ClassText}
	b.ReportAllocs()
	for b.Loop() {
		f.Metrics(key, r, standard, noon)
	}
}
