package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/gateway/pricing"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// drawStored draws a request, decides it and records it as the gateway does, by way of the event's JSON.
func drawStored(t *rapid.T) *Stored {
	config := resource.Resolved{Mode: resource.ModePlatform, ModelIDs: "provider", DefaultStrategy: "auto", Routing: resource.DefaultRouting()}
	config.Routing.Thresholds.ExplorationRate = rapid.SampledFrom([]float64{0, .01, .5}).Draw(t, "exploration")
	config.Routing.Sticky.Enabled = rapid.Bool().Draw(t, "sticky")
	in := routing.Input{Config: &config.Routing}
	book := &resource.PriceBook{}
	for i := range rapid.IntRange(1, 5).Draw(t, "candidates") {
		provider, region := fmt.Sprintf("p%d", i/2), ""
		if i%2 == 1 {
			region = "eu"
		}
		cached := resource.Rate(rapid.IntRange(1, 900).Draw(t, "cached")) * 1e6
		price := resource.Price{Input: resource.Rate(rapid.IntRange(1, 9999).Draw(t, "input")) * 1e6, Output: resource.Rate(rapid.IntRange(1, 9999).Draw(t, "output")) * 1e6, CachedInput: &cached}
		book.Prices = append(book.Prices, resource.BookPrice{Model: "m", Provider: provider, Region: region, Price: price})
		c := routing.Candidate{
			Provider: provider, Region: region, Model: "m", Schedule: &pricing.Schedule{Price: price}, Capabilities: routing.EveryCapability, Credentials: routing.Platform,
			Priority: rapid.SampledFrom([]float64{1, 1, .7, 0}).Draw(t, "priority"),
			Metrics: routing.Metrics{
				Known: routing.Known(rapid.IntRange(0, 7).Draw(t, "known")), Uptime: rapid.Float64Range(0, 100).Draw(t, "uptime"),
				Throughput: rapid.Float64Range(0, 500).Draw(t, "throughput"), Latency: rapid.Float64Range(1, 5000).Draw(t, "latency"),
			},
		}
		if rapid.IntRange(0, 5).Draw(t, "cooling") == 0 {
			c.Cooling, c.CooldownEndsMS = routing.CoolingErrors, 1200
		}
		if rapid.IntRange(0, 5).Draw(t, "removed") == 0 {
			c.Credentials, c.KeysRemoved = 0, routing.Platform
		}
		in.Candidates = append(in.Candidates, c)
	}
	draw := func(label string) bool { return rapid.Bool().Draw(t, label) }
	r := &in.Request
	*r = routing.Request{
		ID: fmt.Sprint(rapid.Uint64().Draw(t, "id")), Stream: draw("stream"), Session: draw("session"), Coding: draw("coding"), NoFallback: draw("no fallback"),
		ImageOutput: draw("images"), ReasoningBound: draw("bound"), PromptTokens: rapid.SampledFrom([]int64{10, 9000}).Draw(t, "prompt"),
	}
	strategy := rapid.SampledFrom([]string{"auto", "auto", "price", "throughput", "latency"}).Draw(t, "strategy")
	r.Strategy = strategies[strategy]
	place := in.Candidates[rapid.IntRange(0, len(in.Candidates)-1).Draw(t, "place")]
	if draw("explicit") {
		r.Provider, r.Strict = place.Provider, draw("strict")
	}
	if draw("replays") {
		r.BoundTo = in.Candidates[rapid.IntRange(0, len(in.Candidates)-1).Draw(t, "issuer")].Provider
	}
	if remembered := (routing.Place{Provider: place.Provider, Region: place.Region}); draw("remembered") {
		if r.Session {
			in.State.Pin = remembered
		} else {
			in.State.Preferred = remembered
		}
	}
	if draw("host rate") {
		rate := rapid.SampledFrom([]float64{0, .3, 1}).Draw(t, "rate")
		in.ExplorationRate = &rate
	}

	s := &Stored{RequestID: r.ID, Config: &config, Prices: book}
	d := new(routing.Decision)
	routing.Decide(&in, d)
	var traits []string
	for trait, on := range map[string]bool{attempt.TraitStrict: r.Strict, attempt.TraitImageOutput: r.ImageOutput, attempt.TraitReasoningBound: r.ReasoningBound} {
		if on {
			traits = append(traits, trait)
		}
	}
	if r.BoundTo != "" {
		traits = append(traits, attempt.TraitBoundTo+r.BoundTo)
	}
	if d.Selected < 0 {
		s.Refusal = &attempt.Refused{
			RequestID: r.ID, Endpoint: attempt.EndpointChat, Stream: r.Stream, Strategy: strategy, PromptTokensEstimate: r.PromptTokens, Traits: traits, NoFallback: r.NoFallback,
			RequestedModel: "m", RequestedProvider: r.Provider, Considered: d.Considered(&in, nil), ConsideredTotal: len(in.Candidates), StatusCode: 400, ErrorCode: d.Error.Code,
		}
		return s
	}
	redecided := false
	if draw("unusable") {
		next, tried := new(routing.Decision), make([]routing.Credentials, len(in.Candidates))
		tried[d.Selected] = routing.Platform
		if redecided = routing.Next(&in, &routing.Retry{Tried: tried}, next); redecided {
			d = next
		}
	}
	selected := &in.Candidates[d.Selected]
	e := attempt.Event{
		SchemaVersion: 1, EventID: "e", RequestID: r.ID, AttemptNo: 1, StartedAt: time.Unix(1e9, 0), Outcome: attempt.Completed, Endpoint: attempt.EndpointChat,
		RequestedModel: "m", RequestedProvider: r.Provider, Stream: r.Stream, Strategy: strategy, PromptTokensEstimate: r.PromptTokens, Traits: traits, NoFallback: r.NoFallback,
		Provider: selected.Provider, Region: selected.Region, Model: "m", Reason: string(d.Reason), Propensity: d.Propensity, Seed: routing.Seed(r.ID), AlgorithmVersion: routing.AlgorithmVersion,
		OriginalProvider: d.OriginalProvider, ExplorationRate: in.ExplorationRate, Redecided: redecided, Considered: d.Considered(&in, nil), ConsideredTotal: len(in.Candidates),
		UsageSource: attempt.UsageReported, InputTokens: 1000, CachedInputTokens: 100, OutputTokens: 50,
	}
	if r.Session {
		e.SessionHash, e.RememberedProvider, e.RememberedRegion = "hash", in.State.Pin.Provider, in.State.Pin.Region
	} else {
		e.RememberedProvider, e.RememberedRegion = in.State.Preferred.Provider, in.State.Preferred.Region
	}
	if r.Coding {
		e.CodingClient = "claude-code"
	}
	if d.Propensity < 1 || d.Reason == routing.RandomExploration {
		e.Draw = &d.Draw
	}
	if d.OriginalUptimeKnown {
		e.OriginalUptime = &d.OriginalUptime
	}
	if d.CacheRelevant {
		e.HitRate, e.OutputRatio = &d.HitRate, &d.OutputRatio
	}
	u := usageOf(&e)
	cost := selected.Schedule.Cost(&u)
	e.CostNanoUSD = cost.Total()
	back, err := attempt.Decode(attempt.Append(nil, &e))
	if err != nil {
		t.Fatal(err)
	}
	s.Attempts = []attempt.Event{*back}
	return s
}

// TestLawWhatIsStoredDecidesAgain: whatever was decided comes out the same, and every part of a score is there.
func TestLawWhatIsStoredDecidesAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawStored(t).Report()
		if r.Again.Verdict != Same || len(r.Again.Differences) > 0 {
			t.Fatalf("%+v", r.Again)
		}
		for _, c := range r.Decision.Candidates {
			x := c.Contributions
			if x == nil {
				t.Fatalf("no parts of %s", c.Provider)
			}
			if sum := x.Price + x.Uptime + x.Throughput + x.Latency + x.Cache + x.Priority + x.UptimePenalty; sum != c.Score {
				t.Fatalf("parts of %s sum to %v, not %v", c.Provider, sum, c.Score)
			}
		}
		var text strings.Builder
		if err := r.Write(&text); err != nil || !strings.Contains(text.String(), r.RequestID) {
			t.Fatal(text.String(), err)
		}
	})
}

// TestLawATamperedRecordIsSeen: what was changed after it was recorded makes a difference, or does not matter.
func TestLawATamperedRecordIsSeen(t *testing.T) {
	tampering := map[string]func(e *attempt.Event) bool{ // false: there is nothing to change
		"score": func(e *attempt.Event) bool {
			return onScored(e, func(c *attempt.Considered) { *c.Score = *c.Score*1.001 + .001 })
		},
		"reason":     func(e *attempt.Event) bool { e.Reason = "provider-order"; return true },
		"propensity": func(e *attempt.Event) bool { e.Propensity /= 2; return true },
		"seed":       func(e *attempt.Event) bool { e.Seed++; return true },
		"provider":   func(e *attempt.Event) bool { e.Provider += "x"; return true },
		"cost":       func(e *attempt.Event) bool { e.CostNanoUSD++; return true },
		"request id": func(e *attempt.Event) bool { e.RequestID += "x"; return true },
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawStored(t)
		if s.Refusal != nil {
			s.Refusal.ErrorCode = "model_retired"
			if r := s.Report(); r.Again.Verdict != Different {
				t.Fatalf("another error: %+v", r.Again)
			}
			return
		}
		for what, change := range tampering {
			changed := *s
			changed.Attempts = []attempt.Event{s.Attempts[0]}
			changed.Attempts[0].Considered = clone(s.Attempts[0].Considered)
			if !change(&changed.Attempts[0]) {
				continue
			}
			if r := changed.Report(); r.Again.Verdict != Different || len(r.Again.Differences) == 0 {
				t.Fatalf("%s: %+v", what, r.Again)
			}
		}
	})
}

func onScored(e *attempt.Event, change func(*attempt.Considered)) bool {
	for i := range e.Considered {
		if e.Considered[i].Score != nil {
			change(&e.Considered[i])
			return true
		}
	}
	return false
}

func clone(list []attempt.Considered) []attempt.Considered {
	out := make([]attempt.Considered, len(list))
	for i, c := range list {
		if c.Score != nil {
			score := *c.Score
			c.Score = &score
		}
		out[i] = c
	}
	return out
}

// sample is one request that failed at its first provider, as it is stored.
func sample() *Stored {
	config := &resource.Resolved{Mode: resource.ModePlatform, ModelIDs: "provider", DefaultStrategy: "auto", Routing: resource.DefaultRouting()}
	ttft := int64(182_400)
	book := &resource.PriceBook{
		Prices: []resource.BookPrice{
			{Model: "m", Provider: "alpha", Price: resource.Price{Input: 1e9, Output: 2e9}},
			{Model: "m", Provider: "beta", Region: "eu", Price: resource.Price{Input: 1.2e9, Output: 2.4e9}},
		},
		Discounts: []resource.BookDiscount{{Organization: "acme", Discount: resource.Discount{Provider: "beta", Percent: 50}}},
	}
	in := routing.Input{Config: &config.Routing, Request: routing.Request{ID: "0197d000-0000-7000-8000-000000000001", Stream: true, PromptTokens: 120}}
	for _, c := range []routing.Candidate{
		{Provider: "alpha", RankingPrice: 1.5, Priority: 1, Metrics: routing.Metrics{Known: 7, Uptime: 99.5, Throughput: 80, Latency: 300}},
		{Provider: "beta", Region: "eu", RankingPrice: 1.8, Priority: 1, Metrics: routing.Metrics{Known: 7, Uptime: 100, Throughput: 95, Latency: 210}},
		{Provider: "gamma", Dropped: routing.CodeContextSize}, {Provider: "delta", Cooling: routing.CoolingErrors, CooldownEndsMS: 4200}, {Provider: "eps", KeysRemoved: routing.Platform},
	} {
		c.Capabilities = routing.EveryCapability
		if c.KeysRemoved == 0 {
			c.Credentials = routing.Platform
		}
		if c.Priority == 0 {
			c.Priority = 1
		}
		in.Candidates = append(in.Candidates, c)
	}
	var d routing.Decision
	routing.Decide(&in, &d)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first := attempt.Event{
		SchemaVersion: 1, EventID: "e-1", RequestID: in.Request.ID, SpanID: "00f067aa0ba902b7", AttemptNo: 1, NodeID: "gw-1", OrganizationID: "acme", ProjectID: "web", APIKeyID: "web-1",
		RequestedModel: "m", Endpoint: attempt.EndpointChat, Stream: true, PromptTokensEstimate: 120, MaxTokens: 256, Traits: []string{"tools"}, Client: "openai-python/2.8.1", Strategy: "auto",
		Provider: in.Candidates[d.Selected].Provider, Region: in.Candidates[d.Selected].Region, Model: "m", CredentialSource: attempt.Platform, ProviderKeyHash: "3fa9c01",
		Reason: string(d.Reason), Propensity: d.Propensity, Seed: routing.Seed(in.Request.ID), Draw: &d.Draw, AlgorithmVersion: routing.AlgorithmVersion, SnapshotID: "s-1",
		ConfigVersion: "c8f1d20b7a91e3f4", PriceVersion: "51a9be7c20d4f613", Considered: d.Considered(&in, nil), ConsideredTotal: 5,
		StartedAt: at, QueueUS: 40, DurationUS: 51_300, Outcome: attempt.UpstreamError, ErrorType: "server_error", StatusCode: 503, WillRetry: true, UsageSource: attempt.UsageMissing,
	}
	second := first
	second.EventID, second.AttemptNo, second.Considered, second.ConsideredTotal, second.Draw, second.Propensity = "e-2", 2, nil, 0, nil, 1
	second.Provider, second.Region, second.Outcome, second.ErrorType, second.StatusCode, second.WillRetry = "alpha", "", attempt.Completed, "none", 200, false
	second.TTFTUS, second.DurationUS, second.FinishReason = &ttft, 2_345_678, "stop"
	second.UsageSource, second.InputTokens, second.OutputTokens = attempt.UsageReported, 130, 90
	second.CostInputNanoUSD, second.CostOutputNanoUSD, second.CostNanoUSD = 130_000, 180_000, 310_000
	second.BaselineKind, second.BaselineModel, second.BaselineProvider, second.BaselineNanoUSD = "provider", "m", "alpha", 310_000
	return &Stored{RequestID: in.Request.ID, Attempts: []attempt.Event{first, second}, Config: config, Prices: book}
}

// refused is a request that nobody could serve, as it is stored.
func refused() *Stored {
	s := sample()
	first := &s.Attempts[0]
	r := &attempt.Refused{
		SchemaVersion: 1, EventID: "e-9", RequestID: s.RequestID, NodeID: "gw-1", OrganizationID: "acme", ProjectID: "web", RequestedModel: "gamma/m", RequestedProvider: "gamma",
		Endpoint: attempt.EndpointChat, PromptTokensEstimate: 300_000, Traits: []string{attempt.TraitStrict, "vision"}, Strategy: "price", ConfigVersion: first.ConfigVersion, PriceVersion: first.PriceVersion,
		Considered: []attempt.Considered{{Provider: "gamma", ExcludedCode: "context_size"}}, ConsideredTotal: 1, At: first.StartedAt,
		StatusCode: 400, ErrorCode: routing.ErrNoProvider, ErrorMessage: "no provider can serve this request: gamma (context_size)",
	}
	return &Stored{RequestID: s.RequestID, Refusal: r, Config: s.Config, Prices: s.Prices}
}

func TestWhatCannotBeDecidedAgainSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Stored)
		want   string
		why    string
	}{
		"configuration":   {func(s *Stored) { s.Config = nil }, NotPossible, "c8f1d20b7a91e3f4"},
		"first attempt":   {func(s *Stored) { s.Attempts = s.Attempts[1:] }, NotPossible, "first attempt"},
		"no candidates":   {func(s *Stored) { s.Attempts[0].Considered = nil }, NotPossible, "candidates"},
		"other algorithm": {func(s *Stored) { s.Attempts[0].AlgorithmVersion, s.Attempts[0].Propensity = 99, .5 }, Different, "version 99"},
		"not all of them": {func(s *Stored) { s.Attempts[0].ConsideredTotal, s.Attempts[0].Propensity = 40, .5 }, Different, "only 5 of 40"},
		"no such price":   {func(s *Stored) { s.Prices.Prices = s.Prices.Prices[1:] }, Different, ""},
		"no price book":   {func(s *Stored) { s.Prices = nil }, Same, ""},
		"an old draw":     {func(s *Stored) { d := routing.Round6(*s.Attempts[0].Draw); s.Attempts[0].Draw = &d }, Same, ""},
	} {
		s := sample()
		c.change(s)
		r := s.Report()
		if r.Again.Verdict != c.want || !strings.Contains(r.Again.Why, c.why) {
			t.Errorf("%s: %+v", name, r.Again)
		}
		var text strings.Builder
		if err := r.Write(&text); err != nil || c.want == Different && !strings.Contains(text.String(), "DIFFERENT") {
			t.Errorf("%s: %s, %v", name, text.String(), err)
		}
	}
}

func TestEveryCodeAndReasonHasWords(t *testing.T) {
	for code := routing.CodeTried; code.String() != ""; code++ {
		if codes[code] == "" {
			t.Errorf("no words for the code %s", code)
		}
	}
	for _, reason := range []routing.Reason{routing.DirectProvider, routing.LowUptimeFallback, routing.RateLimitFallback, routing.SingleProvider, routing.SingleCandidate,
		routing.RandomExploration, routing.ProviderOrder, routing.StablePreferred, routing.PriceOnly, routing.WeightedScore} {
		if reasons[reason] == "" {
			t.Errorf("no words for the reason %s", reason)
		}
	}
}
