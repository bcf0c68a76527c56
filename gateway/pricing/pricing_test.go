package pricing

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"turnout/schemas/resource"
)

func usd(s string) resource.Rate {
	r, err := resource.ParseRate(s)
	if err != nil {
		panic(err)
	}
	return r
}

func usdPtr(s string) *resource.Rate { r := usd(s); return &r }

// sonnet is priced as a real model is, tiers and all.
func sonnet() *Schedule {
	return &Schedule{
		Price: resource.Price{
			Input: usd("3"), Output: usd("15"), CachedInput: usdPtr("0.3"), CacheWrite: usdPtr("3.75"), CacheWrite1h: usdPtr("6"),
		},
		Tiers: []resource.PriceTier{{Above: 200_000, Price: resource.Price{
			Input: usd("6"), Output: usd("22.5"), CachedInput: usdPtr("0.6"), CacheWrite: usdPtr("7.5"),
		}}},
		ServiceTiers: []resource.ServiceTier{{ID: "priority", Price: resource.Price{Input: usd("6"), Output: usd("30")}}},
	}
}

func TestCost(t *testing.T) {
	discounted := sonnet()
	discounted.Discount = 12.5
	odd := &Schedule{Price: resource.Price{
		Input: usd("0.075"), Output: usd("0.3"), ImageInput: usdPtr("0.1"), AudioInput: usdPtr("0.7"),
		AudioOutput: usdPtr("2"), ImageOutput: usdPtr("30"), Request: usdPtr("0.005"),
	}}
	for _, test := range []struct {
		name     string
		schedule *Schedule
		usage    Usage
		want     Cost
	}{
		{"one token each", sonnet(), Usage{Input: 1, Output: 1}, Cost{Input: 3_000, Output: 15_000}},
		{"cached tokens are inside the input", sonnet(), Usage{Input: 10_000, Cached: 9_000, Output: 500},
			Cost{Input: 3_000_000, Cached: 2_700_000, Output: 7_500_000}},
		{"writes of both durations are one part", sonnet(), Usage{Input: 1_000, CacheWrite: 100, CacheWrite1h: 200},
			Cost{Input: 2_100_000, CacheWrite: 375_000 + 1_200_000}},
		{"at the bound the lower tier holds", sonnet(), Usage{Input: 200_000}, Cost{Input: 600_000_000}},
		{"above it the higher one, for all tokens", sonnet(), Usage{Input: 200_001, Output: 2}, Cost{Input: 1_200_006_000, Output: 45_000}},
		{"a tier without a price for long writes takes that of short ones", sonnet(), Usage{Input: 300_000, CacheWrite1h: 300_000},
			Cost{CacheWrite: 2_250_000_000}},
		{"a service tier replaces the price", sonnet(), Usage{Input: 1_000, Cached: 1_000, Output: 1, ServiceTier: "priority"},
			Cost{Cached: 6_000_000, Output: 30_000}},
		{"an unknown service tier is the standard one", sonnet(), Usage{Input: 1, ServiceTier: "flex"}, Cost{Input: 3_000}},
		{"a discount", discounted, Usage{Input: 1, Cached: 1, Output: 1}, Cost{Cached: 263, Output: 13_125}},
		{"half a nano-USD rounds up", &Schedule{Price: resource.Price{Input: 500_000}}, Usage{Input: 1}, Cost{Input: 1}},
		{"less rounds down", &Schedule{Price: resource.Price{Input: 499_999}}, Usage{Input: 1}, Cost{Input: 0}},
		{"media", odd, Usage{Input: 1_000, ImageInput: 600, AudioInput: 300, Output: 100, AudioOutput: 60, ImageOutput: 30},
			Cost{Input: 7_500, ImageInput: 60_000, Audio: 210_000 + 120_000, Output: 3_000 + 900_000, Request: 5_000_000}},
		{"nothing used costs the request", odd, Usage{}, Cost{Request: 5_000_000}},
		{"negative counts are none", sonnet(), Usage{Input: -5, Cached: -9, Output: -1}, Cost{}},
		{"more cached than input is cut", sonnet(), Usage{Input: 10, Cached: 1 << 40}, Cost{Cached: 3_000}},
		{"absurd counts end at the largest number", sonnet(), Usage{Input: math.MaxInt64, Output: math.MaxInt64},
			Cost{Input: math.MaxInt64, Output: math.MaxInt64}},
		{"a discount of everything", &Schedule{Price: resource.Price{Input: usd("3"), Request: usdPtr("1")}, Discount: 100},
			Usage{Input: 1_000_000}, Cost{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.schedule.Cost(&test.usage); got != test.want {
				t.Errorf("cost %+v, want %+v", got, test.want)
			}
		})
	}
	absurd := Cost{Input: math.MaxInt64, Output: 1}
	if absurd.Total() != math.MaxInt64 {
		t.Error("a total above the largest number is the largest number")
	}
}

// exactly computes a part with unbounded integers: sum(tokens x rate) x (1 - discount), half up.
func exactly(discount float64, terms ...int64) *big.Int {
	sum := new(big.Int)
	for i := 0; i < len(terms); i += 2 {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(terms[i]), big.NewInt(terms[i+1])))
	}
	sum.Mul(sum, big.NewInt(1_000_000_000-int64(math.Round(discount*10_000_000))))
	divisor := big.NewInt(1_000_000 * 1_000_000_000)
	sum.Add(sum, new(big.Int).Rsh(divisor, 1))
	sum.Div(sum, divisor)
	if !sum.IsInt64() {
		return big.NewInt(math.MaxInt64)
	}
	return sum
}

func drawRate(t *rapid.T, label string) *resource.Rate {
	if rapid.Bool().Draw(t, label+" absent") {
		return nil
	}
	r := resource.Rate(rapid.OneOf(rapid.Int64Range(0, 100_000_000_000), rapid.Int64Range(0, math.MaxInt64)).Draw(t, label))
	return &r
}

func drawCount(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 2_000_000), rapid.Int64Range(0, math.MaxInt64), rapid.Just[int64](0)).Draw(t, label)
}

// TestCostIsExact holds every part against arithmetic without bounds.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := resource.Price{
			Input:       resource.Rate(rapid.Int64Range(0, math.MaxInt64).Draw(t, "input")),
			Output:      resource.Rate(rapid.Int64Range(0, math.MaxInt64).Draw(t, "output")),
			CachedInput: drawRate(t, "cached"), CacheWrite: drawRate(t, "write"), CacheWrite1h: drawRate(t, "write1h"),
			AudioInput: drawRate(t, "audio in"), AudioOutput: drawRate(t, "audio out"),
		}
		s := &Schedule{Price: p, Discount: rapid.SampledFrom([]float64{0, 0, 10, 12.5, 33.3333, 99.9999999, 100}).Draw(t, "discount")}
		u := Usage{
			Input: drawCount(t, "n"), Cached: drawCount(t, "n cached"), CacheWrite: drawCount(t, "n write"),
			CacheWrite1h: drawCount(t, "n write1h"), AudioInput: drawCount(t, "n audio"),
			Output: drawCount(t, "n out"), AudioOutput: drawCount(t, "n audio out"),
		}
		c := s.Cost(&u)

		rest := u.Input
		portion := func(n int64) int64 { n = min(n, rest); rest -= n; return n }
		cached, write, write1h, audio := portion(u.Cached), portion(u.CacheWrite), portion(u.CacheWrite1h), portion(u.AudioInput)
		audioOut := min(u.AudioOutput, u.Output)
		or := func(rates ...*resource.Rate) int64 {
			for _, r := range rates {
				if r != nil {
					return int64(*r)
				}
			}
			panic("no rate")
		}
		for _, part := range []struct {
			name string
			got  int64
			want *big.Int
		}{
			{"input", c.Input, exactly(s.Discount, rest, int64(p.Input))},
			{"cached", c.Cached, exactly(s.Discount, cached, or(p.CachedInput, &p.Input))},
			{"write", c.CacheWrite, exactly(s.Discount, write, or(p.CacheWrite, &p.Input), write1h, or(p.CacheWrite1h, p.CacheWrite, &p.Input))},
			{"output", c.Output, exactly(s.Discount, u.Output-audioOut, int64(p.Output))},
			{"audio", c.Audio, exactly(s.Discount, audio, or(p.AudioInput, &p.Input), audioOut, or(p.AudioOutput, &p.Output))},
		} {
			if part.want.Cmp(big.NewInt(part.got)) != 0 {
				t.Errorf("%s: %d, want %s", part.name, part.got, part.want)
			}
		}
	})
}

// TestCostGrows: more tokens of a kind never cost less, as long as they reach no other tier.
func TestCostGrows(t *testing.T) {
	s := sonnet()
	s.Tiers = nil
	rapid.Check(t, func(t *rapid.T) {
		u := Usage{Input: drawCount(t, "input"), Output: drawCount(t, "output")}
		u.Cached = rapid.Int64Range(0, u.Input).Draw(t, "cached")
		more := u
		more.Input += rapid.Int64Range(0, math.MaxInt64-u.Input).Draw(t, "more input")
		more.Output += rapid.Int64Range(0, math.MaxInt64-u.Output).Draw(t, "more output")
		a, b := s.Cost(&u), s.Cost(&more)
		if b.Total() < a.Total() {
			t.Errorf("%+v costs %d, %+v only %d", u, a.Total(), more, b.Total())
		}
	})
}

func TestRanking(t *testing.T) {
	cached := func(discount float64) *Schedule {
		return &Schedule{Price: resource.Price{Input: usd("1"), Output: usd("2"), CachedInput: usdPtr("0.1")}, Discount: discount}
	}
	plain := &Schedule{Price: resource.Price{Input: usd("1"), Output: usd("2")}}
	api, coding, chat := Mix{true, .1, .2}, Mix{true, .9, .02}, Mix{true, .5, .1}
	for _, test := range []struct {
		name     string
		schedule *Schedule
		tokens   int64
		tier     string
		mix      Mix
		want     float64
	}{
		{"list price", cached(0), 10, "", Mix{}, 1.5},
		{"api", cached(0), 10, "", api, 0.655},
		{"api, uncached", plain, 10, "", api, 0.7},
		{"coding", cached(0), 10, "", coding, 0.115},
		{"coding, uncached", plain, 10, "", coding, 0.52},
		{"chat", cached(0), 10, "", chat, 0.375},
		{"h 0 and r 1 restore the list price", cached(0), 10, "", Mix{true, 0, 1}, 1.5},
		{"discount", cached(60), 10, "", Mix{}, 0.6},
		{"a hit rate above 1 is 1", cached(0), 10, "", Mix{true, 7, 0}, 0.05},
		{"long prompts are ranked by their tier", sonnet(), 200_001, "", Mix{}, 14.25},
		{"service tier", sonnet(), 10, "priority", Mix{}, 18},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.schedule.Ranking(test.tokens, test.tier, test.mix); math.Abs(got-test.want) > 1e-12 {
				t.Errorf("ranking price %v, want %v", got, test.want)
			}
		})
	}
	if !cached(0).CachesInput() || plain.CachesInput() || !sonnet().HasServiceTier("priority") || plain.HasServiceTier("priority") {
		t.Error("what a schedule offers is read wrongly")
	}
	later := &Schedule{Tiers: []resource.PriceTier{{Above: 5, Price: resource.Price{CachedInput: usdPtr("1")}}}}
	if !later.CachesInput() {
		t.Error("a cached price at a later tier counts")
	}
}

func TestBaseline(t *testing.T) {
	flat := func(price string) *Schedule {
		return &Schedule{Price: resource.Price{Input: usd(price), Output: usd(price)}}
	}
	usage := &Usage{Input: 1_000_000}
	options := []Option{
		{"small", "a", "", flat("1")}, {"small", "b", "", flat("2")},
		{"large", "a", "", flat("9")}, {"large", "c", "eu", flat("5")},
		{"middle", "a", "", flat("4")},
	}
	for _, test := range []struct {
		name   string
		got    Baseline
		want   Baseline
		actual int64
	}{
		{"the dearest model at its cheapest mapping", ModelBaseline(usage, 1e9, options), Baseline{KindModel, "large", "c", "eu", 5e9}, 1e9},
		{"never below the actual cost", ModelBaseline(usage, 7e9, options), Baseline{KindModel, "large", "c", "eu", 7e9}, 7e9},
		{"the dearest provider of the model", ProviderBaseline(usage, 1e9, options[2:4]), Baseline{KindProvider, "large", "a", "", 9e9}, 1e9},
		{"of equals the first", ProviderBaseline(usage, 0, []Option{{"m", "x", "", flat("1")}, {"m", "y", "", flat("1")}}), Baseline{KindProvider, "m", "x", "", 1e9}, 0},
		{"without usage there is none", ProviderBaseline(&Usage{}, 5, options), Baseline{}, 5},
		{"without usage no model either", ModelBaseline(&Usage{}, 5, options), Baseline{}, 5},
		{"without options there is none", ModelBaseline(usage, 5, nil), Baseline{}, 5},
	} {
		if test.got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, test.got, test.want)
		}
	}
}

// TestBaselineNeverBelowActual: a saving is never negative.
func TestBaselineNeverBelowActual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var options []Option
		for range rapid.IntRange(1, 6).Draw(t, "options") {
			price := resource.Price{Input: resource.Rate(drawCount(t, "in")), Output: resource.Rate(drawCount(t, "out"))}
			options = append(options, Option{Model: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), Schedule: &Schedule{Price: price}})
		}
		u := &Usage{Input: drawCount(t, "n"), Output: 1 + drawCount(t, "o")/2}
		chosen := rapid.SampledFrom(options).Draw(t, "chosen")
		actual := totalOf(chosen.Schedule, u)
		for _, b := range []Baseline{ModelBaseline(u, actual, options), ProviderBaseline(u, actual, options)} {
			if b.NanoUSD < actual || b.Kind == "" {
				t.Errorf("baseline %+v below %d", b, actual)
			}
		}
	})
}
