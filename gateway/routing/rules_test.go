package routing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

func TestNext(t *testing.T) {
	var d Decision
	step := func(in *Input, retry *Retry, want string) {
		t.Helper()
		Next(in, retry, &d)
		if got := brief(in, &d); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	in := input(candidate("a", 1), candidate("b", 2), candidate("c", 3)).with(func(in *Input) {
		in.State.Preferred = Place{Provider: "c"}
		in.Config.Sticky.ScoreMargin = 9
	})
	step(in, &Retry{Tried: []Credentials{Platform}}, "b weighted-score | a tried")
	step(in, &Retry{Tried: []Credentials{Platform, Platform}}, "c single-candidate-after-filtering | a tried, b tried")
	step(in, &Retry{Tried: []Credentials{Platform, Platform, Platform}}, "no_provider_available | a tried, b tried, c tried")

	regional := input(candidate("a", 1, region("r1")), candidate("a", 2, region("r2")), candidate("b", 9))
	step(regional, &Retry{Tried: []Credentials{Platform}}, "a:r2 weighted-score | a:r1 tried")

	ordered := input(candidate("a", 1), candidate("b", 2), candidate("c", 3)).with(func(in *Input) { in.Request.Order = []string{"c", "b", "a"} })
	step(ordered, &Retry{Tried: []Credentials{0, 0, Platform}}, "b provider-order | c tried")

	hybrid := input(candidate("a", 1), candidate("b", 2, keys(BYOK|Platform)), candidate("c", 9, keys(BYOK))).with(func(in *Input) { in.Mode = ModeHybrid })
	step(hybrid, &Retry{Tried: []Credentials{0, BYOK}}, "c single-candidate-after-filtering | a no_provider_key, b no_provider_key")
	step(hybrid, &Retry{Tried: []Credentials{0, BYOK, BYOK}}, "a weighted-score | c tried")
	if d.Credential != Platform {
		t.Error("the host's key serves once the tenant's were tried")
	}

	for name, stay := range map[string]func(*Input){
		"an explicit provider": func(in *Input) { in.Request.Provider = "a" },
		"X-No-Fallback":        func(in *Input) { in.Request.NoFallback = true },
		"a session":            func(in *Input) { in.Request.Session = true },
		"replayed reasoning":   func(in *Input) { in.Request.BoundTo = "a" },
	} {
		in := input(candidate("a", 1), candidate("b", 2)).with(stay)
		if Next(in, &Retry{Tried: []Credentials{Platform}}, &d) {
			t.Errorf("%s moved", name)
		}
	}

	// A prompt that did not fit moves even a session, to a larger context only, and the pin with it.
	small := func(c *Candidate) { c.Context = 8_000 }
	session := input(candidate("a", 1, small), candidate("b", 2, small), candidate("c", 3)).with(func(in *Input) { in.Request.Session = true })
	step(session, &Retry{Tried: []Credentials{Platform}, LargerContext: 8_000}, "c session-sticky | a tried, b context_size")
	if d.Update != UpdatePin {
		t.Error("the pin moves")
	}
	session.Candidates[1].Context = 9_000
	session.State.Pin = Place{Provider: "c"}
	step(session, &Retry{Tried: []Credentials{Platform}, LargerContext: 8_000}, "b session-sticky | a tried")
}

func TestMix(t *testing.T) {
	cached := resource.Rate(100_000_000)
	in := input(candidate("a", 1, func(c *Candidate) {
		c.Schedule.Price.CachedInput = &cached
		c.HitRate, c.HitRateKnown = 0.8, true
	}), candidate("b", 1))
	in.Request.PromptTokens = 5_000
	var d Decision
	prices := func(what string, a, b float64) {
		t.Helper()
		Decide(in, &d)
		if math.Abs(d.Scores[0].Price-a) > 1e-9 || math.Abs(d.Scores[1].Price-b) > 1e-9 {
			t.Errorf("%s: prices %v and %v, want %v and %v", what, d.Scores[0].Price, d.Scores[1].Price, a, b)
		}
	}
	// a: (0.1 h + 1 (1 - h) + r) / 2, b: (1 + r) / 2.
	prices("a provider's own hit rate", 0.24, 0.6)
	in.Observed = Observed{Successes: 20, InputTokens: 20_000, CachedInputTokens: 30_000, OutputTokens: 10_000}
	in.Candidates[0].HitRateKnown = false
	prices("observed, with more cached than input", 0.3, 0.75)
	in.Observed.InputTokens = 19_999
	prices("too few tokens observed", (0.91+0.2)/2, 0.6)
	in.Workload = WorkloadChat
	prices("chat", (0.55+0.1)/2, 0.55)
	h, r := 0.5, 2.0
	in.Config.Thresholds.CacheHitRate, in.Config.Thresholds.CacheOutputRatio = &h, &r
	in.Candidates[0].HitRateKnown = true
	prices("the project's figures beat a provider's own", (0.55+2)/2, 1.5)
	if !d.CacheRelevant || d.HitRate != h || d.OutputRatio != r {
		t.Errorf("shown: %v %v %v", d.CacheRelevant, d.HitRate, d.OutputRatio)
	}
	in.Request.PromptTokens = 4_999
	prices("a short prompt ranks by list price", 1, 1)

	in.Config.Weights.Cache = 0.6
	Decide(in, &d)
	if d.Scores[1].Contributions.Cache != 0 {
		t.Error("the cache weight counts for a short prompt")
	}
	in.Request.PromptTokens = 5_000
	Decide(in, &d)
	if got := d.Scores[1].Contributions.Cache; math.Abs(got-0.6/2) > 1e-12 || d.Scores[0].Contributions.Cache != 0 {
		t.Errorf("cache contributes %v, want 0.3 of a total of 2.0", got)
	}
}

func TestLimits(t *testing.T) {
	var d Decision
	limited := func(ms int64) func(*Candidate) {
		return func(c *Candidate) { c.RateLimited, c.RateLimitResetsMS = true, ms }
	}
	Decide(input(candidate("a", 1, limited(900)), candidate("b", 1, limited(400)), candidate("c", 1, limited(0))), &d)
	if d.Error.Code != ErrRateLimited || d.Error.RetryAfterMS != 400 {
		t.Errorf("%+v", d.Error)
	}
	Decide(input(candidate("a", 1, cooling(CoolingRateLimit, 2_000)), candidate("b", 1, cooling(CoolingRateLimit, 800))), &d)
	if d.Error.Code != ErrAllLimited || d.Error.RetryAfterMS != 800 {
		t.Errorf("%+v", d.Error)
	}
	if want := "every provider is rate limiting us: a (cooldown), b (cooldown)"; d.Error.Message != want {
		t.Errorf("message %q, want %q", d.Error.Message, want)
	}
	Decide(input(candidate("a", 1, func(c *Candidate) { c.Unmet = []string{"zdr", "eu"} }), candidate("b", 1, func(c *Candidate) { c.Unmet = []string{"eu"} })), &d)
	if !slices.Equal(d.Error.Unmet, []string{"eu", "zdr"}) {
		t.Errorf("unmet %v", d.Error.Unmet)
	}
}

// What a named provider's refusal says is about that provider, whatever others are up to.
func TestARefusalOfANamedProviderIsNotAboutOthers(t *testing.T) {
	removed := func(c *Candidate) { c.Credentials, c.KeysRemoved = 0, Platform }
	limited := func(ms int64) func(*Candidate) {
		return func(c *Candidate) { c.RateLimited, c.RateLimitResetsMS = true, ms }
	}
	compliant := func(unmet string) func(*Candidate) { return func(c *Candidate) { c.Unmet = []string{unmet} } }
	named := func(in *Input) { in.Request.Provider = "a" }
	strict := func(in *Input) { in.Request.Provider, in.Request.Strict = "a", true }
	for _, c := range []struct {
		what  string
		in    *Input
		code  string
		after int64
		unmet []string
	}{
		{"its own cooldown is waited for", input(candidate("a", 1, cooling(CoolingRateLimit, 30_000)), candidate("b", 1, cooling(CoolingRateLimit, 800))).with(named), ErrAllLimited, 30_000, nil},
		{"its keys were removed, and another has none", input(candidate("a", 1, removed), candidate("b", 1, keys(0))).with(named), ErrProvidersUnavailable, 0, nil},
		{"it has no key, and another's were removed", input(candidate("a", 1, keys(0)), candidate("b", 1, removed)).with(named), ErrNoProvider, 0, nil},
		{"a limit of anybody's lets the request in", input(candidate("a", 1, limited(900)), candidate("b", 1, limited(400))).with(named), ErrRateLimited, 400, nil},
		{"but not where it is strict", input(candidate("a", 1, limited(900)), candidate("b", 1, limited(400))).with(strict), ErrRateLimited, 900, nil},
		{"its own policies are unmet", input(candidate("a", 1, compliant("zdr")), candidate("b", 1, compliant("eu"))).with(named), ErrRegionUnavailable, 0, []string{"zdr"}},
	} {
		var d Decision
		Decide(c.in, &d)
		if d.Error.Code != c.code || d.Error.RetryAfterMS != c.after || !slices.Equal(d.Error.Unmet, c.unmet) {
			t.Errorf("%s: %+v", c.what, d.Error)
		}
	}
}

func TestChooseModel(t *testing.T) {
	models := []Model{
		{"opus", "claude", []Candidate{candidate("anthropic", 15)}},
		{"sonnet", "claude", []Candidate{candidate("bedrock", 9), candidate("anthropic", 8)}},
		{"haiku", "claude", []Candidate{candidate("anthropic", 3, func(c *Candidate) { c.Capabilities = Tools | Vision })}},
		{"lone", "other", []Candidate{candidate("other", 7)}},
	}
	var d Decision
	choose := func(change func(*Input), want int) {
		t.Helper()
		in := input()
		in.Request.AnyModel = true
		if change != nil {
			change(in)
		}
		if got := ChooseModel(in, models, &d); got != want {
			t.Errorf("chose %d, want %d (%s)", got, want, d.Error.Message)
		}
	}
	choose(nil, 2)
	choose(func(in *Input) { in.Request.PromptTokens = 10_000 }, 2)
	choose(func(in *Input) { in.Request.PromptTokens = 10_001 }, 3)
	choose(func(in *Input) { in.Request.Effort = EffortLow }, 3)
	choose(func(in *Input) { in.Request.Needs = Tools | ToolChoice }, 3)
	models[3].Candidates[0].Cooling = CoolingErrors
	choose(func(in *Input) { in.Request.Effort = EffortLow }, 1)
	choose(func(in *Input) { in.Request.NoReasoning = true }, 2)
	for i := range models {
		for j := range models[i].Candidates {
			models[i].Candidates[j].RateLimited = true
		}
	}
	choose(nil, -1)
	if d.Error.Code != ErrRateLimited || !strings.Contains(d.Error.Message, "no model can serve this request: opus (rate_limited), sonnet") {
		t.Errorf("%+v", d.Error)
	}
	// Who may wait is told the shortest wait of any model, whichever comes last.
	for i, ms := range []int64{4_000, 900, 2_000, 0} {
		models[i].Candidates = []Candidate{candidate("p", 1, func(c *Candidate) { c.RateLimited, c.RateLimitResetsMS = true, ms })}
	}
	choose(nil, -1)
	if d.Error.Code != ErrRateLimited || d.Error.RetryAfterMS != 900 {
		t.Errorf("%+v", d.Error)
	}
	models = nil
	choose(nil, -1)
	if d.Error.Code != ErrNoProvider || d.Error.Message != "no model can serve this request" {
		t.Errorf("%+v", d.Error)
	}
}

func TestRound6(t *testing.T) {
	for _, test := range []struct{ in, want float64 }{
		{0, 0}, {1, 1}, {123456, 123456}, {1234567, 1234570}, {0.1234565, 0.123457}, {99.99999, 100}, {-2.3456789, -2.34568},
		{1e-7, 1e-7}, {1.23456789e-30, 1.23457e-30}, {9.9999999e40, 1e41}, {999999.5, 1e6}, {math.Inf(1), math.Inf(1)}, {0.000123456789, 0.000123457},
	} {
		if got := Round6(test.in); got != test.want {
			t.Errorf("Round6(%v) is %v, want %v", test.in, got, test.want)
		}
	}
	if !math.IsNaN(Round6(math.NaN())) {
		t.Error("what is no number stays so")
	}
}

func TestAdjustUptime(t *testing.T) {
	for _, test := range []struct {
		uptime            float64
		attempts, atLeast int64
		want              float64
	}{{0, 1, 20, 95}, {0, 20, 20, 0}, {50, 10, 20, 75}, {0, 1, 0, 0}, {0, 0, 20, 100}, {80, 400, 20, 80}} {
		if got := AdjustUptime(test.uptime, test.attempts, test.atLeast); got != test.want {
			t.Errorf("%v of %d is %v, want %v", test.uptime, test.attempts, got, test.want)
		}
	}
}

func TestDraws(t *testing.T) {
	if Draw("r-1") != Draw("r-1") || Draw("r-1") == Draw("r-2") || Draw("r-1") == Pick("r-1") {
		t.Error("draws are functions of the id, each its own")
	}
	const n, bins = 20_000, 10
	var draws, picks [bins]int
	for i := range n {
		id := fmt.Sprintf("0198c0de-7e57-7000-8000-%012x", i)
		draws[int(Draw(id)*bins)]++
		picks[int(Pick(id)*bins)]++
	}
	for b := range bins {
		// Five standard deviations of a binomial with p = 1/10.
		if d := 5 * math.Sqrt(n*0.09); math.Abs(float64(draws[b])-n/bins) > d || math.Abs(float64(picks[b])-n/bins) > d {
			t.Errorf("bin %d holds %d draws and %d picks", b, draws[b], picks[b])
		}
	}
}

// In hybrid mode a candidate gives way to those with a tenant's key also where the host's key for it is good.
func TestACandidateThatGaveWayHasNotLostItsKeys(t *testing.T) {
	in := input(candidate("a", 1, func(c *Candidate) { c.KeysRemoved = BYOK }), candidate("b", 2, keys(BYOK)), candidate("c", 3, keys(0), func(c *Candidate) { c.KeysRemoved = Platform }))
	in.Mode = ModeHybrid
	var d Decision
	Decide(in, &d)
	if got, want := brief(in, &d), "b single-candidate-after-filtering | a no_provider_key, c no_provider_key"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	kept := d.Considered(in, nil)
	if kept[0].CooldownCause != "" || kept[2].CooldownCause != causeInvalidKey {
		t.Errorf("causes %q and %q", kept[0].CooldownCause, kept[2].CooldownCause)
	}
}

func TestConsideredKeepsTheBest(t *testing.T) {
	in := benchmarkInput(64, false)
	in.Request.Draw = new(float64)
	*in.Request.Draw = 0.5
	in.Candidates[63].Metrics.Latency = 1
	in.Candidates[62].Metrics.Throughput = 1e6
	in.Candidates[61].Metrics.Uptime = 100
	var d Decision
	Decide(in, &d)
	kept := d.Considered(in, nil)
	if len(kept) != maxConsidered {
		t.Fatalf("%d kept", len(kept))
	}
	for _, provider := range []string{in.Candidates[d.Selected].Provider, "provider-00", "provider-61", "provider-62", "provider-63"} {
		if !slices.ContainsFunc(kept, func(c attempt.Considered) bool { return c.Provider == provider }) {
			t.Errorf("%s is not kept", provider)
		}
	}
}
