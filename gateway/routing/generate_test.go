package routing

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// digits draws a number with few digits between low and high, as prices and metrics are written.
func digits(t *rapid.T, low, high int, unit float64, label string) float64 {
	return float64(rapid.IntRange(low, high).Draw(t, label)) * unit
}

func drawSchedule(t *rapid.T) *pricing.Schedule {
	rate := func(label string) resource.Rate {
		return resource.Rate(rapid.IntRange(1, 20_000).Draw(t, label)) * 1_000_000
	}
	s := &pricing.Schedule{Price: resource.Price{Input: rate("input"), Output: rate("output")}}
	if rapid.Bool().Draw(t, "caches") {
		cached := rate("cached")
		s.Price.CachedInput = &cached
	}
	s.Discount = digits(t, 0, 3, 10, "discount")
	return s
}

func drawCandidate(t *rapid.T) Candidate {
	c := Candidate{
		Provider: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "provider"),
		Region:   rapid.SampledFrom([]string{"", "", "eu", "us"}).Draw(t, "region"),
		Schedule: drawSchedule(t),
		Priority: rapid.SampledFrom([]float64{1, 1, 1, 2, 1.2, 0.8, 0}).Draw(t, "priority"),
		Metrics: Metrics{
			Known:      Known(rapid.IntRange(0, 7).Draw(t, "known")),
			Uptime:     digits(t, 1, 10_000, 0.01, "uptime"),
			Throughput: digits(t, 1, 5_000, 0.1, "throughput"),
			Latency:    digits(t, 1, 5_000, 1, "latency"),
		},
		Credentials:  rapid.SampledFrom([]Credentials{Platform, Platform, BYOK, Platform | BYOK, 0}).Draw(t, "keys"),
		Capabilities: EveryCapability,
	}
	odd := func(label string) bool { return rapid.IntRange(0, 9).Draw(t, label) == 0 }
	c.Deactivated, c.Deprecated, c.Unstable = odd("deactivated"), odd("deprecated"), odd("unstable")
	c.RateLimited, c.Custom = odd("rate limited"), odd("custom")
	if odd("cooling") {
		c.Cooling = rapid.SampledFrom([]Cause{CoolingErrors, CoolingRateLimit}).Draw(t, "cause")
		c.CooldownEndsMS = int64(rapid.IntRange(1, 9_000).Draw(t, "ends"))
	}
	if odd("limited") {
		c.Capabilities = Capability(rapid.IntRange(0, int(EveryCapability)).Draw(t, "capabilities")) &^ Unlimited
		c.Context = int64(rapid.IntRange(1_000, 200_000).Draw(t, "context"))
	}
	return c
}

// drawInput draws any input with an unexploring draw.
func drawInput(t *rapid.T) *Input {
	config, draw := resource.DefaultRouting(), 0.999
	in := &Input{Config: &config}
	seen := map[Place]bool{}
	for range rapid.IntRange(1, 9).Draw(t, "candidates") {
		c := drawCandidate(t)
		if at := (Place{c.Provider, c.Region}); !seen[at] {
			seen[at] = true
			in.Candidates = append(in.Candidates, c)
		}
	}
	r := &in.Request
	r.ID, r.Draw = fmt.Sprint(rapid.Uint64().Draw(t, "id")), &draw
	r.Stream, r.Coding = rapid.Bool().Draw(t, "stream"), rapid.Bool().Draw(t, "coding")
	r.Session = rapid.IntRange(0, 3).Draw(t, "session") == 0
	r.PromptTokens = int64(rapid.SampledFrom([]int{0, 100, 4_999, 5_000, 90_000}).Draw(t, "prompt"))
	r.Strategy = Strategy(rapid.IntRange(0, 3).Draw(t, "strategy"))
	r.Needs = rapid.SampledFrom([]Capability{0, 0, Tools, Tools | ToolChoice, Vision}).Draw(t, "needs")
	in.Mode = rapid.SampledFrom([]Mode{ModePlatform, ModePlatform, ModeBYOK, ModeHybrid}).Draw(t, "mode")
	place := func(label string) Place {
		if rapid.Bool().Draw(t, label) {
			return Place{}
		}
		c := rapid.SampledFrom(in.Candidates).Draw(t, label+" at")
		return Place{c.Provider, c.Region}
	}
	in.State = State{Pin: place("pin"), Preferred: place("preferred")}
	if rapid.IntRange(0, 3).Draw(t, "explicit") == 0 {
		r.Provider = rapid.SampledFrom(in.Candidates).Draw(t, "named").Provider
		r.NoFallback = rapid.Bool().Draw(t, "no fallback")
	}
	return in
}

func (in *Input) clone() *Input {
	out, config := *in, *in.Config
	out.Config, out.Candidates = &config, slices.Clone(in.Candidates)
	for i := range out.Candidates {
		s := *out.Candidates[i].Schedule
		out.Candidates[i].Schedule = &s
	}
	return &out
}

func decideNew(in *Input) *Decision {
	d := &Decision{}
	Decide(in, d)
	return d
}

func place(in *Input, d *Decision) Place {
	if d.Selected < 0 {
		return Place{}
	}
	return Place{in.Candidates[d.Selected].Provider, in.Candidates[d.Selected].Region}
}
