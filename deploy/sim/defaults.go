package sim

import "slices"

// Ids of the models that the default providers serve. No real provider serves them.
const (
	Small    = "sim-small"
	Large    = "sim-large"
	Reason   = "sim-reason"
	Embedder = "sim-embed"
)

// Default returns five providers that differ in price, speed and what a cached read costs. List
// prices of a model lie within 30 % of each other, cached reads cost 10 to 60 % of input.
func Default() []Provider {
	return []Provider{
		// cheap and slow
		provide("sim-thrift", Lognormal(280, 800), Lognormal(60, 110),
			small("0.45", "0.27", "1.80"), large("2.60", "1.56", "10.40"), reason("1.80", "1.08", "7.20"), embedder("0.02")),
		// in the middle of everything
		provide("sim-steady", Lognormal(140, 350), Lognormal(120, 180),
			small("0.50", "0.125", "2.00"), large("3.00", "0.75", "12.00"), reason("2.00", "0.50", "8.00"), embedder("0.022")),
		// fast and dear
		provide("sim-swift", Lognormal(50, 140), Lognormal(300, 420),
			small("0.58", "0.29", "2.32"), large("3.30", "1.65", "13.20")),
		// nearly free when it has read the prompt before
		provide("sim-recall", Lognormal(160, 400), Lognormal(100, 150),
			small("0.52", "0.052", "2.08"), large("3.10", "0.31", "12.40"), reason("2.10", "0.21", "8.40")),
		// a long context
		provide("sim-vast", Lognormal(200, 550), Lognormal(90, 140),
			small("0.55", "0.22", "2.20"), vast(large("3.20", "1.28", "12.80"))),
	}
}

// Key is the API key that a default provider accepts. It guards nothing.
func Key(provider string) string { return "sk-" + provider + "-0000" }

func provide(id string, ttft, rate Dist, models ...Model) Provider {
	b := DefaultBehavior()
	b.TTFT, b.TokenRate = ttft, rate
	return Provider{ID: id, Keys: []string{Key(id)}, Models: models, Behavior: b}
}

func small(input, cached, output string) Model {
	return Model{ID: Small, Context: 262_144, Price: Price{input, cached, output}}
}

func large(input, cached, output string) Model {
	return Model{ID: Large, Context: 200_000, Price: Price{input, cached, output}}
}

func vast(m Model) Model {
	m.Context = 1_000_000
	return m
}

func reason(input, cached, output string) Model {
	return Model{ID: Reason, Context: 200_000, Reasoning: true, Price: Price{input, cached, output}}
}

func embedder(input string) Model {
	return Model{ID: Embedder, Context: 8_192, Embedding: true, Price: Price{Input: input, Output: "0"}}
}

// modelIDs lists what the providers serve, in order of first appearance.
func modelIDs(providers []Provider) []string {
	var ids []string
	for _, p := range providers {
		for _, m := range p.Models {
			if !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}
