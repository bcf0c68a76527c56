package pricing

// Option is a mapping that could have served a request.
type Option struct {
	Model, Provider, Region string
	Schedule                *Schedule
}

// Kinds of baseline.
const (
	KindModel    = "model"    // another model could have been chosen
	KindProvider = "provider" // another provider of the same model
)

// Baseline is what the same tokens would have cost without routing: the dearest choice there was.
// Kind is empty where there is nothing to compare.
type Baseline struct {
	Kind                    string
	Model, Provider, Region string // whose price it is
	NanoUSD                 int64  // never below the actual cost
}

// ProviderBaseline compares a request for a fixed model with the dearest of the eligible mappings
// of that model; the first of equals.
func ProviderBaseline(u *Usage, actualNanoUSD int64, eligible []Option) Baseline {
	if u.Empty() {
		return Baseline{}
	}
	dearest, cost := -1, int64(-1)
	for i := range eligible {
		if c := totalOf(eligible[i].Schedule, u); c > cost {
			dearest, cost = i, c
		}
	}
	return baseline(KindProvider, eligible, dearest, max(cost, actualNanoUSD))
}

// ModelBaseline compares a request whose model was chosen for it (auto, smart, dynamic routes) with
// the dearest of the candidate models, each at the cheapest of its mappings. Options of one model
// stand together.
func ModelBaseline(u *Usage, actualNanoUSD int64, options []Option) Baseline {
	if u.Empty() {
		return Baseline{}
	}
	dearest, cost := -1, int64(-1)
	for from := 0; from < len(options); {
		cheapest, least := from, totalOf(options[from].Schedule, u)
		to := from + 1
		for ; to < len(options) && options[to].Model == options[from].Model; to++ {
			if c := totalOf(options[to].Schedule, u); c < least {
				cheapest, least = to, c
			}
		}
		if least > cost {
			dearest, cost = cheapest, least
		}
		from = to
	}
	return baseline(KindModel, options, dearest, max(cost, actualNanoUSD))
}

func totalOf(s *Schedule, u *Usage) int64 {
	c := s.Cost(u)
	return c.Total()
}

func baseline(kind string, options []Option, dearest int, nanoUSD int64) Baseline {
	if dearest < 0 {
		return Baseline{}
	}
	o := options[dearest]
	return Baseline{Kind: kind, Model: o.Model, Provider: o.Provider, Region: o.Region, NanoUSD: nanoUSD}
}
