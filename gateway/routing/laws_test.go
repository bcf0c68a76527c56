package routing

import (
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// TestMain raises the cases of a law to 1,000; -rapid.checks=10000 asks for more. Failures are
// printed with their seed and leave no files behind.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "1000", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// closely says whether two candidates were so close that rounding may decide between them.
func closely(d *Decision, a, b int) bool {
	x, y := d.scoreOf(a), d.scoreOf(b)
	return x != nil && y != nil && math.Abs(x.Score-y.Score) < 1e-4*(1+math.Abs(x.Score))
}

// contested says whether somewhere in the decision two candidates of one round were that close.
func contested(d *Decision) bool {
	for i := range d.Scores {
		for j := range i {
			if closely(d, d.Scores[i].Candidate, d.Scores[j].Candidate) {
				return true
			}
		}
	}
	return false
}

func scalePrices(s *pricing.Schedule, by resource.Rate) {
	p := &s.Price
	p.Input, p.Output = p.Input*by, p.Output*by
	if p.CachedInput != nil {
		cached := *p.CachedInput * by
		p.CachedInput = &cached
	}
}

func TestLawScalingPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		scaled := in.clone()
		by := resource.Rate(rapid.IntRange(2, 1_000).Draw(t, "by"))
		for i := range scaled.Candidates {
			scalePrices(scaled.Candidates[i].Schedule, by)
		}
		a, b := decideNew(in), decideNew(scaled)
		if a.Selected != b.Selected && !contested(a) {
			t.Errorf("%s became %s", brief(in, a), brief(scaled, b))
		}
	})
}

func TestLawWorseNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		if in.Mode == ModeHybrid { // there a fall below 85 brings in the host's keys, the candidate's own too
			in.Mode = ModePlatform
		}
		i := rapid.IntRange(0, len(in.Candidates)-1).Draw(t, "which")
		worse := in.clone()
		c := &worse.Candidates[i]
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			scalePrices(c.Schedule, resource.Rate(rapid.IntRange(1, 20).Draw(t, "dearer")))
		case 1:
			c.Metrics.Throughput /= digits(t, 1, 50, 1, "slower")
		case 2:
			c.Metrics.Latency *= digits(t, 1, 50, 1, "later")
		default:
			c.Metrics.Uptime -= digits(t, 0, int(c.Metrics.Uptime*100)-1, 0.01, "less reliable")
		}
		a, b := decideNew(in), decideNew(worse)
		if a.Selected != i && b.Selected == i && (a.Selected < 0 || !closely(a, a.Selected, i)) {
			t.Errorf("worse, %d is chosen: %s became %s", i, brief(in, a), brief(worse, b))
		}
	})
}

func TestLawOrderMattersForTiesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		for range rapid.IntRange(0, 1).Draw(t, "twins") {
			twin := rapid.SampledFrom(in.Candidates).Draw(t, "twin")
			twin.Provider = "twin"
			in.Candidates = append(in.Candidates, twin)
		}
		mixed := in.clone()
		mixed.Candidates = rapid.Permutation(mixed.Candidates).Draw(t, "order")
		a, b := decideNew(in), decideNew(mixed)
		if place(in, a) == place(mixed, b) {
			return
		}
		before := brief(in, a)
		tied := ties(a)
		for g := range a.groups {
			a.home(in, g, -1) // the last round wrote over the home scores of those who won
			tied = tied || ties(a)
		}
		if !tied && lastResorts(in) < 2 {
			t.Errorf("%s became %s without a tie", before, brief(mixed, b))
		}
	})
}

// ties says whether two candidates of a decision have the same score.
func ties(d *Decision) bool {
	for i := range d.Scores {
		for j := range i {
			if d.Scores[i].compared == d.Scores[j].compared {
				return true
			}
		}
	}
	return false
}

// lastResorts counts candidates whose cooldowns end in the same millisecond as another's.
func lastResorts(in *Input) int {
	ends, n := map[int64]int{}, 0
	for i := range in.Candidates {
		if in.Candidates[i].Cooling == CoolingErrors {
			ends[in.Candidates[i].CooldownEndsMS]++
			n = max(n, ends[in.Candidates[i].CooldownEndsMS])
		}
	}
	return n
}

func TestLawPlainRequestsIgnoreLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Request.Stream = false
		other := in.clone()
		for i := range other.Candidates {
			other.Candidates[i].Metrics.Latency = digits(t, 1, 9_000, 1, "latency")
		}
		a, b := decideNew(in), decideNew(other)
		if a.Selected != b.Selected || a.Reason != b.Reason {
			t.Errorf("%s became %s", brief(in, a), brief(other, b))
		}
		for i := range a.Scores {
			if a.Scores[i].Score != b.Scores[i].Score {
				t.Errorf("score %v became %v", a.Scores[i].Score, b.Scores[i].Score)
			}
		}
	})
}

func TestLawScalingWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		w := &in.Config.Weights
		w.Cache = rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "cache")
		scaled := in.clone()
		by := digits(t, 1, 1_000, 0.01, "by")
		s := &scaled.Config.Weights
		*s = resource.Weights{
			Price: w.Price * by, ImagePrice: w.ImagePrice * by, Uptime: w.Uptime * by,
			Throughput: w.Throughput * by, Latency: w.Latency * by, Cache: w.Cache * by,
		}
		a, b := decideNew(in), decideNew(scaled)
		if a.Selected != b.Selected && !contested(a) {
			t.Errorf("%s became %s", brief(in, a), brief(scaled, b))
		}
		for i := range a.Scores {
			if math.Abs(a.Scores[i].Score-b.Scores[i].Score) > 1e-9*(1+math.Abs(a.Scores[i].Score)) {
				t.Errorf("score %v became %v", a.Scores[i].Score, b.Scores[i].Score)
			}
		}
	})
}

func TestLawEqualInputsDecideEqually(t *testing.T) {
	used := &Decision{}
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Request.Draw = nil
		before := in.clone()
		Decide(in, used)
		fresh := decideNew(in)
		if !reflect.DeepEqual(in, before) {
			t.Error("the input was changed")
		}
		for _, d := range []*Decision{used, fresh} {
			if d.Scores == nil {
				d.Scores = []Scored{}
			}
			if d.Excluded == nil {
				d.Excluded = []Exclusion{}
			}
			if d.groups == nil {
				d.groups = []group{}
			}
		}
		if !reflect.DeepEqual(used, fresh) {
			t.Errorf("%s with used memory, %s with fresh", brief(in, used), brief(in, fresh))
		}
	})
}

func TestLawEveryCandidateIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		d := decideNew(in)
		times := make([]int, len(in.Candidates))
		for i := range d.Scores {
			s := &d.Scores[i]
			times[s.Candidate]++
			if sum := s.Contributions.sum(); sum != s.Score || math.IsNaN(sum) {
				t.Errorf("contributions sum to %v, the score is %v", sum, s.Score)
			}
		}
		for _, x := range d.Excluded {
			times[x.Candidate]++
			if x.Code == Eligible || ParseCode(x.Code.String()) != x.Code {
				t.Errorf("excluded without a code: %v", x)
			}
		}
		for i, n := range times {
			if n != 1 {
				t.Errorf("candidate %d is accounted for %d times", i, n)
			}
		}
		if (d.Selected < 0) == (d.Error.Code == "") {
			t.Errorf("selected %d with error %q", d.Selected, d.Error.Code)
		}
	})
}

func TestLawPropensitiesSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		rate := digits(t, 0, 100, 0.01, "rate")
		in.ExplorationRate = &rate
		never, always := 0.9999999, 0.0
		in.Request.Draw = &never
		base := decideNew(in)
		if base.Selected < 0 {
			return
		}
		seen := map[int]float64{}
		note := func(d *Decision) {
			if p, ok := seen[d.Selected]; ok && math.Abs(p-d.Propensity) > 1e-12 {
				t.Errorf("propensity of %d is %v and %v", d.Selected, p, d.Propensity)
			}
			seen[d.Selected] = d.Propensity
		}
		if rate < 1 {
			note(base)
		}
		in.Request.Draw = &always
		for k := range base.Providers {
			pick := (float64(k) + 0.5) / float64(base.Providers)
			in.Request.Pick = &pick
			note(decideNew(in))
		}
		sum := 0.0
		for _, p := range seen {
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("propensities %v sum to %v", seen, sum)
		}
	})
}

// TestLawRetriesEnd: every further attempt goes somewhere new, until nobody is left.
func TestLawRetriesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Request.Session, in.Request.Provider = false, ""
		d := decideNew(in)
		retry := &Retry{Tried: make([]Credentials, len(in.Candidates))}
		for ok, n := d.Selected >= 0, 0; ok; ok, n = Next(in, retry, d), n+1 {
			if retry.Tried[d.Selected]&d.Credential != 0 || in.Candidates[d.Selected].Credentials&d.Credential == 0 {
				t.Fatalf("attempt %d goes to %d with keys %d, tried %v", n, d.Selected, d.Credential, retry.Tried)
			}
			if n > 2*len(in.Candidates) {
				t.Fatal("no end")
			}
			retry.Tried[d.Selected] |= d.Credential
		}
	})
}

// TestLawRecordedDecidesAgain: what an event keeps is enough to come to the same choice.
func TestLawRecordedDecidesAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Request.Draw = nil
		d := decideNew(in)
		again := *in
		again.Mode = ModePlatform
		var original *float64
		if d.OriginalUptimeKnown {
			original = &d.OriginalUptime
		}
		again.Candidates = Recorded(d.Considered(in, nil), original, nil)
		again.Request.Needs = 0
		b := decideNew(&again)
		if d.Selected != b.Selected || d.Reason != b.Reason || d.Propensity != b.Propensity || d.Error.Code != b.Error.Code {
			t.Errorf("%s was %s", brief(&again, b), brief(in, d))
		}
		for i := range d.Scores {
			if d.Scores[i].Score != b.Scores[i].Score {
				t.Errorf("score %v was %v", b.Scores[i].Score, d.Scores[i].Score)
			}
		}
	})
}

func TestLawRound6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64().Draw(t, "x")
		y := Round6(x)
		if Round6(y) != y {
			t.Errorf("%v rounds to %v and that to %v", x, y, Round6(y))
		}
		if math.Abs(y-x) > 5.0000001e-6*math.Abs(x) {
			t.Errorf("%v rounds to %v", x, y)
		}
		if up := Round6(math.Nextafter(x, math.Inf(1))); up < y {
			t.Errorf("rounding is not monotone at %v", x)
		}
		var read float64
		if _, err := fmt.Sscanf(fmt.Sprintf("%.6g", y), "%g", &read); err != nil || read != y {
			t.Errorf("%v written in six digits reads as %v", y, read)
		}
	})
}
