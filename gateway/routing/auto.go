package routing

import (
	"strings"

	"turnout/gateway/pricing"
)

// smallModelTokens is the prompt above which the smallest model of a family is not chosen for.
const smallModelTokens = 10_000

// Model is one that may be chosen for a request that leaves the model open.
type Model struct {
	ID         string
	Family     string // "" belongs to none
	Candidates []Candidate
}

// ChooseModel chooses the model for a request for `auto`: of those that can serve it the one with the
// lowest list price, the first of equals; models whose providers are all cooling down come last. It
// returns an index into models, with which the caller fills in.Candidates and what else the model
// decides, and then calls Decide. If it returns -1, out.Error says why no model fits.
//
// in.Candidates is not read; in.Request.AnyModel must be set. out is scratch memory.
func ChooseModel(in *Input, models []Model, out *Decision) int {
	view := *in
	best, bestPrice, bestResort := -1, 0.0, false
	failure, worst := Error{Code: ErrNoProvider}, Eligible
	var why strings.Builder
	for m := range models {
		view.Candidates = models[m].Candidates
		reason := "too small for the prompt"
		if in.Request.PromptTokens <= smallModelTokens || !smallest(models, m) {
			out.reset(&view)
			if out.filter(&view, nil, asked) > 0 {
				price := out.cheapest(&view)
				if best < 0 || bestResort && !out.lastResort || bestResort == out.lastResort && price < bestPrice {
					best, bestPrice, bestResort = m, price, out.lastResort
				}
				continue
			}
			out.fail(&view)
			last := out.last(&view)
			if last >= worst {
				if waits := failure.RetryAfterMS; last == worst && waits > 0 && (out.Error.RetryAfterMS == 0 || waits < out.Error.RetryAfterMS) {
					out.Error.RetryAfterMS = waits
				}
				failure, worst = out.Error, last
			}
			reason = last.String()
		}
		why.WriteString(", " + models[m].ID + " (" + reason + ")")
	}
	out.reset(in)
	if best < 0 {
		out.Error = failure
		out.Error.Message = "no model can serve this request" + strings.Replace(why.String(), ", ", ": ", 1)
	}
	return best
}

// cheapest is the lowest list price among the eligible candidates.
func (d *Decision) cheapest(in *Input) float64 {
	lowest := -1.0
	for i := range in.Candidates {
		if price := in.Candidates[i].listPrice(&in.Request); d.codes[i] == Eligible && (lowest < 0 || price < lowest) {
			lowest = price
		}
	}
	return lowest
}

// smallest says whether the model is the cheapest of at least two of its family.
func smallest(models []Model, m int) bool {
	family := models[m].Family
	if family == "" {
		return false
	}
	mine, others := models[m].listPrice(), false
	for i := range models {
		if i == m || models[i].Family != family {
			continue
		}
		others = true
		if price := models[i].listPrice(); price < mine || price == mine && i < m {
			return false
		}
	}
	return others
}

// listPrice is the lowest list price of a model for a short prompt, whoever may serve it.
func (m *Model) listPrice() float64 {
	lowest := -1.0
	for i := range m.Candidates {
		if price := m.Candidates[i].listPrice(&Request{}); lowest < 0 || price < lowest {
			lowest = price
		}
	}
	return lowest
}

// listPrice is (input + output)/2 after discount and tier.
func (c *Candidate) listPrice(r *Request) float64 {
	if c.Schedule == nil {
		return c.RankingPrice
	}
	return Round6(c.Schedule.Ranking(r.PromptTokens, r.ServiceTier, pricing.Mix{}))
}
