package routing

import (
	"math"
	"slices"
	"strings"
	"testing"

	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// flat is a schedule of one price for input and output, in USD per 1M tokens.
func flat(usd float64) *pricing.Schedule {
	rate := resource.Rate(math.Round(usd * 1e9))
	return &pricing.Schedule{Price: resource.Price{Input: rate, Output: rate}}
}

// candidate is able to do everything and has an uptime of 100.
func candidate(provider string, usd float64, change ...func(*Candidate)) Candidate {
	c := Candidate{
		Provider: provider, Schedule: flat(usd), Priority: 1, Capabilities: EveryCapability, Credentials: Platform,
		Metrics: Metrics{Known: KnownUptime | KnownThroughput, Uptime: 100, Throughput: 50},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func uptime(u float64) func(*Candidate)   { return func(c *Candidate) { c.Metrics.Uptime = u } }
func region(r string) func(*Candidate)    { return func(c *Candidate) { c.Region = r } }
func keys(k Credentials) func(*Candidate) { return func(c *Candidate) { c.Credentials = k } }
func cooling(why Cause, ms int64) func(*Candidate) {
	return func(c *Candidate) { c.Cooling, c.CooldownEndsMS = why, ms }
}

// input puts candidates before a request whose draw does not explore.
func input(candidates ...Candidate) *Input {
	config, draw := resource.DefaultRouting(), 0.5
	return &Input{Candidates: candidates, Config: &config, Request: Request{ID: "r", PromptTokens: 100, Draw: &draw}}
}

func (in *Input) with(change func(*Input)) *Input { change(in); return in }

// brief writes a decision as "provider[:region] reason | excluded code, ..." or "code | ...".
func brief(in *Input, d *Decision) string {
	name := func(i int) string {
		if c := in.Candidates[i]; c.Region != "" {
			return c.Provider + ":" + c.Region
		}
		return in.Candidates[i].Provider
	}
	head := d.Error.Code
	if d.Selected >= 0 {
		head = name(d.Selected) + " " + string(d.Reason)
	}
	var dropped []string
	for _, x := range d.Excluded {
		dropped = append(dropped, name(x.Candidate)+" "+x.Code.String())
	}
	if dropped == nil {
		return head
	}
	return head + " | " + strings.Join(dropped, ", ")
}

func TestFilters(t *testing.T) {
	lacking := func(missing Capability) func(*Candidate) {
		return func(c *Candidate) { c.Capabilities = (EveryCapability &^ Unlimited) &^ missing }
	}
	needs := func(n Capability) func(*Input) { return func(in *Input) { in.Request.Needs = n } }
	one := func(change func(*Candidate)) []Candidate {
		return []Candidate{candidate("a", 1, change), candidate("b", 2)}
	}
	for _, test := range []struct {
		name       string
		candidates []Candidate
		change     func(*Input)
		want       string
	}{
		{"deactivated", one(func(c *Candidate) { c.Deactivated = true }), nil, "b single-candidate-after-filtering | a deactivated"},
		{"deprecated", one(func(c *Candidate) { c.Deprecated = true }), nil, "b single-candidate-after-filtering | a deprecated"},
		{"deprecated is served when it is all there is", []Candidate{candidate("a", 1, func(c *Candidate) { c.Deprecated = true })}, nil, "a single-provider-available"},
		{"every mapping deactivated", []Candidate{candidate("a", 1, func(c *Candidate) { c.Deactivated = true })}, nil, "model_retired | a deactivated"},
		{"not allowed", one(func(c *Candidate) { c.NotAllowed = true }), nil, "b single-candidate-after-filtering | a not_allowed"},
		{"nobody allowed", []Candidate{candidate("a", 1, func(c *Candidate) { c.NotAllowed = true })}, nil, "not_allowed | a not_allowed"},
		{"no key", one(keys(BYOK)), nil, "b single-candidate-after-filtering | a no_provider_key"},
		{"every key removed", []Candidate{candidate("a", 1, keys(0), func(c *Candidate) { c.KeysRemoved = Platform })}, nil, "providers_unavailable | a no_provider_key"},
		{"no key ever", []Candidate{candidate("a", 1, keys(0))}, nil, "no_provider_available | a no_provider_key"},
		{"a key locks a region", []Candidate{
			candidate("a", 1, region("us"), func(c *Candidate) { c.LockRegion = "eu" }),
			candidate("a", 2, region("eu"), func(c *Candidate) { c.LockRegion = "eu" }),
		}, nil, "a:eu single-candidate-after-filtering | a:us locked_region"},
		{"context with the answer asked for", one(func(c *Candidate) { c.Context = 299 }),
			func(in *Input) { in.Request.MaxTokens = 200 }, "b single-candidate-after-filtering | a context_size"},
		{"an answer longer than the output limit still needs its room", one(func(c *Candidate) { c.Context, c.MaxOutput = 5_000, 100 }),
			func(in *Input) { in.Request.MaxTokens = 5_000 }, "b single-candidate-after-filtering | a context_size"},
		{"context exactly", []Candidate{candidate("a", 1, func(c *Candidate) { c.Context = 300 })},
			func(in *Input) { in.Request.MaxTokens = 200 }, "a single-provider-available"},
		{"a small output limit needs less room", []Candidate{candidate("a", 1, func(c *Candidate) { c.Context, c.MaxOutput = 4_200, 4_000 })},
			func(in *Input) { in.Request.PromptTokens = 200 }, "a single-provider-available"},
		{"embeddings need no room for an answer", []Candidate{candidate("a", 1, func(c *Candidate) { c.Context = 8_192 })},
			func(in *Input) { in.Request.PromptTokens, in.Request.Embedding = 8_192, true }, "a single-provider-available"},
		{"images take room", one(func(c *Candidate) { c.Context = 4_096 + 100 + 559 }),
			func(in *Input) { in.Request.Images = 1 }, "b single-candidate-after-filtering | a context_size"},
		{"images take the mapping's room", []Candidate{candidate("a", 1, func(c *Candidate) { c.Context, c.ImageTokens = 4_096+100+20, 10 })},
			func(in *Input) { in.Request.Images = 2 }, "a single-provider-available"},
		{"absurd sizes do not overflow", one(func(c *Candidate) { c.Context = 8_192 }),
			func(in *Input) { in.Request.Images, in.Request.PromptTokens = math.MaxInt64, math.MaxInt64 }, "b single-candidate-after-filtering | a context_size"},
		{"max tokens", one(func(c *Candidate) { c.MaxOutput = 9 }),
			func(in *Input) { in.Request.MaxTokens = 10 }, "b single-candidate-after-filtering | a max_tokens"},
		{"audio", one(lacking(Audio)), needs(Audio), "b single-candidate-after-filtering | a audio"},
		{"json object", one(lacking(JSONObject)), needs(JSONObject), "b single-candidate-after-filtering | a json_output"},
		{"json schema", one(lacking(JSONSchema)), needs(JSONSchema), "b single-candidate-after-filtering | a json_schema"},
		{"n", one(lacking(N)), needs(N), "b single-candidate-after-filtering | a n_unsupported"},
		{"web search", one(lacking(WebSearch)), needs(WebSearch), "b single-candidate-after-filtering | a web_search"},
		{"prefill", one(lacking(AssistantPrefill)), needs(AssistantPrefill), "b single-candidate-after-filtering | a assistant_prefill"},
		{"safeguards", []Candidate{candidate("a", 1, lacking(Safeguards))}, needs(Safeguards), "safeguards_unsupported | a safeguards"},
		{"reasoning", one(lacking(Reasoning)), needs(Reasoning), "b single-candidate-after-filtering | a reasoning_effort"},
		{"an effort that is too high", one(func(c *Candidate) { c.Efforts = EffortLow | EffortMedium }),
			func(in *Input) { in.Request.Effort = EffortHigh }, "b single-candidate-after-filtering | a reasoning_effort"},
		{"an effort within reach", one(func(c *Candidate) { c.Efforts = EffortLow | EffortHigh }),
			func(in *Input) { in.Request.Effort = EffortMedium }, "a weighted-score"},
		{"no effort asks for no reasoning", one(lacking(Reasoning)), func(in *Input) { in.Request.Effort = EffortNone }, "a weighted-score"},
		{"no reasoning wanted", one(lacking(0)), func(in *Input) { in.Request.NoReasoning = true }, "b single-candidate-after-filtering | a no_reasoning_variant"},
		{"no reasoning wanted and possible", one(func(c *Candidate) { lacking(0)(c); c.Efforts = EffortNone | EffortHigh }),
			func(in *Input) { in.Request.NoReasoning = true }, "a weighted-score"},
		{"service tier", []Candidate{candidate("a", 1), candidate("b", 2, func(c *Candidate) {
			c.Schedule.ServiceTiers = []resource.ServiceTier{{ID: "flex"}}
		})}, func(in *Input) { in.Request.ServiceTier = "flex" }, "b single-candidate-after-filtering | a service_tier"},
		{"compliance", []Candidate{candidate("a", 1, func(c *Candidate) { c.Unmet = []string{"eu"} })}, nil, "model_region_unavailable | a compliance"},
		{"tool_choice is kept apart when another model may be chosen", []Candidate{candidate("a", 1, lacking(ToolChoice))},
			func(in *Input) { in.Request.Needs, in.Request.AnyModel = Tools|ToolChoice, true }, "no_provider_available | a tool_choice"},
		{"the first missing thing is named", one(lacking(Vision | Tools | JSONSchema)), needs(Vision | Tools | JSONSchema), "b single-candidate-after-filtering | a vision"},
		{"the project's priority replaces the mapping's", one(func(*Candidate) {}),
			func(in *Input) { in.Config.ProviderPriorities = map[string]float64{"a": 0} }, "b single-candidate-after-filtering | a disabled"},
		{"a capped provider is never the last resort", []Candidate{
			candidate("a", 1, func(c *Candidate) { c.RateLimited = true }), candidate("b", 1, cooling(CoolingErrors, 9)),
		}, nil, "b single-candidate-after-filtering | a rate_limited"},
		{"of those cooling from errors the first to end is called", []Candidate{
			candidate("a", 1, cooling(CoolingErrors, 900)), candidate("b", 1, cooling(CoolingErrors, 800)), candidate("c", 1, cooling(CoolingRateLimit, 1)),
		}, nil, "b single-candidate-after-filtering | a cooldown, c cooldown"},
		{"custom below 90", []Candidate{candidate("a", 1, uptime(89.9), func(c *Candidate) { c.Custom = true }), candidate("b", 9, uptime(50))}, nil,
			"b single-candidate-after-filtering | a low_uptime"},
		{"custom below 90 is kept when it is all there is", []Candidate{candidate("a", 1, uptime(50), func(c *Candidate) { c.Custom = true })}, nil,
			"a single-provider-available"},
		{"no mappings at all", nil, nil, "no_provider_available"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input(test.candidates...)
			if test.change != nil {
				test.change(in)
			}
			var d Decision
			Decide(in, &d)
			if got := brief(in, &d); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if d.Selected < 0 && d.Error.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestChoice(t *testing.T) {
	pair := func() *Input { return input(candidate("a", 1), candidate("b", 2)) }
	regions := func() *Input {
		return input(candidate("a", 1, region("r1")), candidate("a", 1.1, region("r2")), candidate("b", 5))
	}
	zero, half := 0.0, 0.5
	for _, test := range []struct {
		name string
		in   *Input
		want string
	}{
		{"regions compete at home first", regions(), "a:r1 weighted-score"},
		{"a pinned region stands for its provider", regions().with(func(in *Input) {
			in.Request.Session, in.State.Pin = true, Place{"a", "r2"}
		}), "a:r2 session-sticky"},
		{"a pin to a region that is gone is scored again", regions().with(func(in *Input) {
			in.Request.Session, in.State.Pin = true, Place{"a", "r9"}
		}), "a:r1 session-sticky"},
		{"a preferred region within the margin of the last round", regions().with(func(in *Input) {
			in.State.Preferred = Place{"a", "r2"}
		}), "a:r2 stable-preferred"},
		{"the margin is measured in the last round, not at home", regions().with(func(in *Input) {
			in.Candidates[1].Schedule, in.State.Preferred = flat(1.5), Place{"a", "r2"}
		}), "a:r2 stable-preferred"},
		{"beyond the margin of the last round the home winner stands again", regions().with(func(in *Input) {
			in.Candidates[1].Schedule, in.Candidates[2].Schedule, in.State.Preferred = flat(1.5), flat(1.01), Place{"a", "r2"}
		}), "a:r1 weighted-score"},
		{"a session switched off is none", pair().with(func(in *Input) {
			in.Request.Session, in.Config.Session.Enabled, in.State.Pin = true, false, Place{"b", ""}
		}), "a weighted-score"},
		{"a preference switched off is none", pair().with(func(in *Input) {
			in.Config.Sticky.Enabled, in.Config.Sticky.ScoreMargin, in.State.Preferred = false, 9, Place{"b", ""}
		}), "a weighted-score"},
		{"exactly 85 keeps a pin", pair().with(func(in *Input) {
			in.Request.Session, in.State.Pin, in.Candidates[1].Metrics.Uptime = true, Place{"b", ""}, 85
		}), "b session-sticky"},
		{"a bound model keeps a pin whatever its uptime", pair().with(func(in *Input) {
			in.Request.Session, in.Request.ReasoningBound, in.State.Pin, in.Candidates[1].Metrics.Uptime = true, true, Place{"b", ""}, 10
		}), "b session-sticky"},
		{"no preference for auto", pair().with(func(in *Input) {
			in.Request.AnyModel, in.Config.Sticky.ScoreMargin, in.State.Preferred = true, 9, Place{"b", ""}
		}), "a weighted-score"},
		{"explicit provider", pair().with(func(in *Input) { in.Request.Provider = "b" }), "b direct-provider-specified"},
		{"explicit provider that cannot", pair().with(func(in *Input) {
			in.Request.Provider, in.Candidates[1].Deactivated = "b", true
		}), "no_provider_available | b deactivated"},
		{"explicit region", regions().with(func(in *Input) { in.Request.Provider, in.Request.Region = "a", "r2" }), "a:r2 direct-provider-specified | a:r1 locked_region"},
		{"a deprecated region that was named", regions().with(func(in *Input) {
			in.Request.Provider, in.Request.Region, in.Candidates[1].Deprecated = "a", "r2", true
		}), "a:r2 direct-provider-specified | a:r1 locked_region"},
		{"a deprecated region that the keys are locked to", regions().with(func(in *Input) {
			in.Request.Provider, in.Candidates[0].LockRegion, in.Candidates[1].Deprecated = "a", "r2", true
		}), "a:r2 direct-provider-specified | a:r1 locked_region"},
		{"a deprecated region beside others", regions().with(func(in *Input) {
			in.Request.Provider, in.Candidates[0].Deprecated = "a", true
		}), "a:r2 direct-provider-specified | a:r1 deprecated"},
		{"an unstable provider that was named", pair().with(func(in *Input) {
			in.Request.Provider, in.Candidates[1].Unstable = "b", true
		}), "b direct-provider-specified"},
		{"capped explicit provider", pair().with(func(in *Input) {
			in.Request.Provider, in.Candidates[1].RateLimited = "b", true
		}), "a rate-limit-fallback | b rate_limited"},
		{"capped strict provider", pair().with(func(in *Input) {
			in.Request.Provider, in.Request.Strict, in.Candidates[1].RateLimited = "b", true, true
		}), "rate_limit_exceeded | b rate_limited"},
		{"capped without fallback", pair().with(func(in *Input) {
			in.Request.Provider, in.Request.NoFallback, in.Candidates[1].RateLimited = "b", true, true
		}), "rate_limit_exceeded | b rate_limited"},
		{"low uptime of a strict provider", pair().with(func(in *Input) {
			in.Request.Provider, in.Request.Strict, in.Candidates[1].Metrics.Uptime = "b", true, 10
		}), "b direct-provider-specified"},
		{"low uptime of a bound model", pair().with(func(in *Input) {
			in.Request.Provider, in.Request.ReasoningBound, in.Candidates[1].Metrics.Uptime = "b", true, 10
		}), "b direct-provider-specified"},
		{"exactly 90 stays", pair().with(func(in *Input) { in.Request.Provider, in.Candidates[1].Metrics.Uptime = "b", 90 }), "b direct-provider-specified"},
		{"low uptime with nobody better stays", pair().with(func(in *Input) {
			in.Request.Provider, in.Candidates[0].Metrics.Uptime, in.Candidates[1].Metrics.Uptime = "b", 60, 60
		}), "b direct-provider-specified"},
		{"unknown uptime is better than low", pair().with(func(in *Input) {
			in.Request.Provider, in.Candidates[0].Metrics.Known, in.Candidates[1].Metrics.Uptime = "b", 0, 60
		}), "a low-uptime-fallback | b low_uptime"},
		{"routing beside an explicit provider", pair().with(func(in *Input) { in.Request.Provider, in.Request.StrategyField = "b", true }), "invalid_value"},
		{"replayed reasoning goes to its issuer", pair().with(func(in *Input) { in.Request.BoundTo = "b" }), "b single-candidate-after-filtering"},
		{"replayed reasoning without its issuer", pair().with(func(in *Input) {
			in.Request.BoundTo, in.Candidates[1].Deactivated = "b", true
		}), "reasoning_provider_unavailable | b deactivated"},
		{"explicit order", pair().with(func(in *Input) { in.Request.Order, in.Request.Draw = []string{"x", "b", "a"}, &zero }), "b provider-order"},
		{"a pin beats the order", pair().with(func(in *Input) {
			in.Request.Order, in.Request.Session, in.State.Pin = []string{"b", "a"}, true, Place{"a", ""}
		}), "a session-sticky"},
		{"exploration", pair().with(func(in *Input) { in.Request.Draw, in.Request.Pick = &zero, &half }), "b random-exploration"},
		{"no exploration under another strategy", pair().with(func(in *Input) {
			in.Request.Draw, in.Request.Pick, in.Request.Strategy = &zero, &half, StrategyPrice
		}), "a weighted-score"},
		{"the host's rate holds under every strategy", pair().with(func(in *Input) {
			in.Request.Draw, in.Request.Pick, in.Request.Strategy, in.ExplorationRate = &zero, &half, StrategyPrice, &half
		}), "b random-exploration"},
		{"a host's rate of 0 ends exploration", pair().with(func(in *Input) {
			in.Request.Draw, in.Request.Pick, in.ExplorationRate = &zero, &half, &zero
		}), "a weighted-score"},
		{"no exploration for a bound model", pair().with(func(in *Input) {
			in.Request.Draw, in.Request.Pick, in.Request.ReasoningBound = &zero, &half, true
		}), "a weighted-score"},
		{"all weights zero", pair().with(func(in *Input) { in.Config.Weights = resource.Weights{} }), "a price-only-no-metrics"},
		{"price over priority", input(
			candidate("a", 1, func(c *Candidate) { c.Metrics.Known = 0 }),
			candidate("b", 1.5, func(c *Candidate) { c.Metrics.Known, c.Priority = 0, 2 }),
		), "b price-only-no-metrics"},
		{"images weigh price by 1", pair().with(func(in *Input) {
			in.Request.ImageOutput, in.Candidates[0].Metrics.Uptime = true, 99
		}), "a weighted-score"},
		{"own keys first in hybrid", input(candidate("a", 1), candidate("b", 9, keys(BYOK|Platform))).with(func(in *Input) { in.Mode = ModeHybrid }),
			"b single-candidate-after-filtering | a no_provider_key"},
		{"the host's keys where no tenant key can", input(candidate("a", 1), candidate("b", 9, keys(BYOK), func(c *Candidate) { c.Deactivated = true })).with(func(in *Input) { in.Mode = ModeHybrid }),
			"a single-candidate-after-filtering | b deactivated"},
		{"the host's keys where the keyed provider is unwell", input(candidate("a", 1), candidate("b", 9, keys(BYOK), uptime(84))).with(func(in *Input) { in.Mode = ModeHybrid }),
			"a single-candidate-after-filtering | b low_uptime"},
		{"a keyed provider that is unwell stays where nobody is well", input(candidate("a", 1, uptime(20)), candidate("b", 9, keys(BYOK), uptime(84))).with(func(in *Input) { in.Mode = ModeHybrid }),
			"b single-candidate-after-filtering | a no_provider_key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Decision
			Decide(test.in, &d)
			if got := brief(test.in, &d); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	var d Decision
	in := input(candidate("a", 1), candidate("b", 1.1))
	decide := func(what string, update Update, ttl int64) {
		t.Helper()
		Decide(in, &d)
		if d.Update != update || d.TTLSeconds != ttl {
			t.Errorf("%s: update %d for %d s, want %d for %d s", what, d.Update, d.TTLSeconds, update, ttl)
		}
	}
	decide("first choice is preferred", UpdatePreferred, 3600)
	in.State.Preferred = Place{Provider: "b"}
	decide("a preference that is kept is not extended", UpdateNothing, 0)
	in.Request.Session = true
	decide("a session is pinned", UpdatePin, 3600)
	in.State.Pin = Place{Provider: "b"}
	decide("a pin is renewed on use", UpdatePin, 3600)
	in.Candidates = in.Candidates[:1]
	decide("a single candidate is pinned", UpdatePin, 3600)
	in.Request.Session = false
	decide("a single candidate says nothing about preference", UpdateNothing, 0)
}

func TestRegionsAndScores(t *testing.T) {
	in := input(candidate("a", 2, region("dear")), candidate("a", 1, region("cheap")), candidate("b", 4))
	var d Decision
	Decide(in, &d)
	// At home dear is 2/1-1 = 1 on price, .6/1.4 of the weight; abroad cheap is best and b 3 times dearer.
	want := []float64{0.6 / 1.4 * 1, 0, 0.6 / 1.4 * 3}
	for i, s := range d.Scores {
		if math.Abs(s.Score-want[i]) > 1e-12 {
			t.Errorf("score %d is %v, want %v", i, s.Score, want[i])
		}
	}
	if lost := []int{d.Scores[0].LostTo, d.Scores[1].LostTo, d.Scores[2].LostTo}; !slices.Equal(lost, []int{1, -1, -1}) || d.Providers != 2 {
		t.Errorf("lost to %v among %d providers", lost, d.Providers)
	}
}
