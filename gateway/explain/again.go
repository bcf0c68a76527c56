package explain

import (
	"fmt"
	"math"
	"strings"

	"turnout/gateway/pricing"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// Verdicts of deciding again.
const (
	Same        = "same"
	Different   = "different"
	NotPossible = "not_possible" // something that the decision depended on is not stored
	NoDecision  = "no_decision"  // the request was refused before anything was decided
)

// Again says whether deciding again from what was recorded comes out the same.
type Again struct {
	Verdict     string   `json:"verdict"`
	Why         string   `json:"why,omitempty"` // why it was not possible, or what weakens the verdict
	Differences []string `json:"differences"`
	Selected    *Place   `json:"selected,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	ErrorCode   string   `json:"error_code,omitempty"`
	// Costs: how many attempts' costs were computed again from the price book; -1 without one.
	Costs int `json:"costs"`
}

// decided returns the decision that was recorded, and decides it again if it can; nil if none was.
func (s *Stored) decided() *decided {
	var d *decided
	switch {
	case s.Refusal != nil && len(s.Refusal.Considered) > 0 && s.Refusal.ErrorCode != routing.ErrInvalidValue:
		d = ofRefusal(s.Refusal)
	case len(s.Attempts) > 0 && s.Attempts[0].AttemptNo == 1:
		d = ofEvent(&s.Attempts[0])
	default:
		return nil
	}
	if s.Config == nil || len(d.considered) == 0 || d.ofModels() {
		return d
	}
	d.input.Config = &s.Config.Routing
	d.again = new(routing.Decision)
	if d.event != nil && d.event.Redecided {
		routing.Next(&d.input, &routing.Retry{}, d.again)
	} else {
		routing.Decide(&d.input, d.again)
	}
	return d
}

// ofModels says whether the candidates are those of several models, where auto found none.
func (d *decided) ofModels() bool { return d.considered[0].Model != "" }

func ofEvent(e *attempt.Event) *decided {
	state := routing.State{}
	if remembered := (routing.Place{Provider: e.RememberedProvider, Region: e.RememberedRegion}); e.SessionHash != "" {
		state.Pin = remembered
	} else {
		state.Preferred = remembered
	}
	return &decided{
		considered: e.Considered, total: e.ConsideredTotal, model: e.Model, organization: e.OrganizationID, promptTokens: e.PromptTokensEstimate,
		maxTokens: e.MaxTokens, tier: e.ServiceTier, snapshot: e.SnapshotID, config: e.ConfigVersion, prices: e.PriceVersion, event: e,
		input: routing.Input{
			Candidates: routing.Recorded(e.Considered, e.OriginalUptime, nil),
			Request: routing.Request{
				ID: e.RequestID, Stream: e.Stream, Embedding: e.Endpoint == attempt.EndpointEmbeddings, ImageOutput: has(e.Traits, attempt.TraitImageOutput),
				PromptTokens: e.PromptTokensEstimate, Session: e.SessionHash != "", Coding: e.CodingClient != "", NoFallback: e.NoFallback,
				Strategy: strategies[e.Strategy], Provider: e.RequestedProvider, Strict: has(e.Traits, attempt.TraitStrict),
				ReasoningBound: has(e.Traits, attempt.TraitReasoningBound), BoundTo: boundTo(e.Traits),
			},
			State: state, ExplorationRate: e.ExplorationRate,
		},
	}
}

func ofRefusal(e *attempt.Refused) *decided {
	tier, _ := suffix(e.Traits, attempt.TraitServiceTier)
	return &decided{
		considered: e.Considered, total: e.ConsideredTotal, model: modelOf(e), organization: e.OrganizationID, promptTokens: e.PromptTokensEstimate,
		maxTokens: e.MaxTokens, tier: tier, snapshot: e.SnapshotID, config: e.ConfigVersion, prices: e.PriceVersion,
		input: routing.Input{
			Candidates: routing.Recorded(e.Considered, nil, nil),
			Request: routing.Request{
				ID: e.RequestID, Stream: e.Stream, Embedding: e.Endpoint == attempt.EndpointEmbeddings, ImageOutput: has(e.Traits, attempt.TraitImageOutput),
				PromptTokens: e.PromptTokensEstimate, Session: e.SessionHash != "", NoFallback: e.NoFallback,
				Strategy: strategies[e.Strategy], Provider: e.RequestedProvider, Strict: has(e.Traits, attempt.TraitStrict),
				ReasoningBound: has(e.Traits, attempt.TraitReasoningBound), BoundTo: boundTo(e.Traits),
			},
		},
	}
}

var strategies = map[string]routing.Strategy{
	"price": routing.StrategyPrice, "throughput": routing.StrategyThroughput, "latency": routing.StrategyLatency,
}

// modelOf is the model of a refusal's candidates: what was asked for, without what names a provider.
func modelOf(e *attempt.Refused) string {
	id := e.RequestedModel
	if e.RequestedProvider != "" {
		id = strings.TrimLeft(strings.TrimPrefix(id, e.RequestedProvider), "/:")
	}
	return id
}

func has(traits []string, trait string) bool {
	for _, t := range traits {
		if t == trait {
			return true
		}
	}
	return false
}

// boundTo is the provider whose reasoning the request replays; "" if it does not.
func boundTo(traits []string) string {
	provider, _ := suffix(traits, attempt.TraitBoundTo)
	return provider
}

// suffix finds the trait that begins so and returns the rest of it.
func suffix(traits []string, prefix string) (string, bool) {
	for _, t := range traits {
		if rest, ok := strings.CutPrefix(t, prefix); ok {
			return rest, true
		}
	}
	return "", false
}

func (s *Stored) again(d *decided) Again {
	a := Again{Verdict: Same, Differences: []string{}, Costs: -1}
	a.addCosts(s)
	switch {
	case d == nil && len(s.Attempts) > 0:
		a.Verdict, a.Why = NotPossible, "the first attempt is not stored (yet); it holds what the decision saw"
		return a
	case d == nil:
		a.Verdict, a.Why = NoDecision, "the request was refused before candidates were weighed"
		return a
	case len(d.considered) == 0:
		a.Verdict, a.Why = NotPossible, "the candidates are not recorded"
		return a
	case d.ofModels():
		a.Verdict, a.Why = NotPossible, "which model auto chooses is not decided again"
		return a
	case d.again == nil:
		a.Verdict, a.Why = NotPossible, "the routing configuration "+d.config+" is not stored (yet)"
		return a
	}
	if d.event != nil {
		a.compareChoice(d)
	} else {
		a.compareRefusal(s.Refusal, d)
	}
	a.compareScores(d)
	if len(a.Differences) == 0 {
		return a
	}
	a.Verdict = Different
	switch {
	case d.total > len(d.considered):
		a.Why = fmt.Sprintf("only %d of %d candidates are recorded", len(d.considered), d.total)
	case d.event != nil && d.event.AlgorithmVersion != routing.AlgorithmVersion:
		a.Why = fmt.Sprintf("it was decided by version %d of the algorithm, and again by version %d", d.event.AlgorithmVersion, routing.AlgorithmVersion)
	}
	return a
}

func (a *Again) differ(what string, again, was any) {
	a.Differences = append(a.Differences, fmt.Sprintf("%s: %v again, %v recorded", what, again, was))
}

func (a *Again) compareChoice(d *decided) {
	e, b := d.event, d.again
	a.Reason, a.ErrorCode = string(b.Reason), b.Error.Code
	if b.Selected >= 0 {
		c := &d.considered[b.Selected]
		a.Selected = &Place{c.Provider, c.Region, d.model}
	}
	if a.Selected == nil || a.Selected.Provider != e.Provider || a.Selected.Region != e.Region {
		a.differ("selected", name(a.Selected), name(&Place{Provider: e.Provider, Region: e.Region}))
	}
	if a.Reason != e.Reason {
		a.differ("reason", a.Reason, e.Reason)
	}
	if b.Propensity != e.Propensity {
		a.differ("propensity", b.Propensity, e.Propensity)
	}
	if seed := routing.Seed(e.RequestID); seed != e.Seed {
		a.differ("seed", seed, e.Seed)
	}
	if e.Draw != nil && *e.Draw != b.Draw && *e.Draw != routing.Round6(b.Draw) { // it was rounded once
		a.differ("draw", b.Draw, *e.Draw)
	}
	if b.OriginalProvider != e.OriginalProvider {
		a.differ("original_provider", b.OriginalProvider, e.OriginalProvider)
	}
	if e.OriginalUptime != nil && *e.OriginalUptime != b.OriginalUptime {
		a.differ("original_uptime", b.OriginalUptime, *e.OriginalUptime)
	}
	if b.CacheRelevant != (e.HitRate != nil) {
		a.differ("cache blending", b.CacheRelevant, e.HitRate != nil)
	}
}

// compareRefusal: of a refused request it is compared that nobody is left, by the same filter. Where
// candidates were left, they became unusable between the decision and the call.
func (a *Again) compareRefusal(e *attempt.Refused, d *decided) {
	b := d.again
	a.ErrorCode = b.Error.Code
	left := false
	for i := range d.considered {
		left = left || d.considered[i].Score != nil && d.considered[i].ExcludedCode == ""
	}
	switch {
	case left && b.Selected >= 0:
		c := &d.considered[b.Selected]
		a.Selected, a.ErrorCode, a.Reason = &Place{c.Provider, c.Region, d.model}, "", string(b.Reason)
	case b.Selected >= 0:
		a.differ("selected", name(&Place{Provider: d.considered[b.Selected].Provider, Region: d.considered[b.Selected].Region}), "nobody")
	case a.ErrorCode != e.ErrorCode:
		a.differ("error", a.ErrorCode, e.ErrorCode)
	}
}

// compareScores compares each score and each exclusion.
func (a *Again) compareScores(d *decided) {
	scores := make(map[int]float64, len(d.again.Scores))
	for i := range d.again.Scores {
		scores[d.again.Scores[i].Candidate] = d.again.Scores[i].Score
	}
	codes := make(map[int]string, len(d.again.Excluded))
	for _, x := range d.again.Excluded {
		codes[x.Candidate] = x.Code.String()
	}
	for i := range d.considered {
		c := &d.considered[i]
		who := name(&Place{Provider: c.Provider, Region: c.Region})
		if codes[i] != c.ExcludedCode {
			a.differ("exclusion of "+who, orNone(codes[i]), orNone(c.ExcludedCode))
		}
		score, scored := scores[i]
		if c.Score == nil || !scored {
			continue
		}
		if math.Abs(score-*c.Score) > 1e-9 {
			a.differ("score of "+who, score, *c.Score)
		}
	}
}

func orNone(code string) string {
	if code == "" {
		return "none"
	}
	return code
}

func name(p *Place) string {
	switch {
	case p == nil:
		return "nobody"
	case p.Region != "":
		return p.Provider + ":" + p.Region
	}
	return p.Provider
}

// addCosts computes each cost again from the price book of its time, and the baseline among providers.
func (a *Again) addCosts(s *Stored) {
	if s.Prices == nil {
		return
	}
	a.Costs = 0
	for i := range s.Attempts {
		e := &s.Attempts[i]
		if e.UsageSource == attempt.UsageMissing || e.UsageSource == "" {
			continue
		}
		schedule := s.schedule(e.Model, e.Provider, e.Region, e.OrganizationID)
		if schedule == nil {
			a.Differences = append(a.Differences, fmt.Sprintf("cost of attempt %d: the price book %s has no price of it", e.AttemptNo, e.PriceVersion))
			continue
		}
		u := usageOf(e)
		cost := schedule.Cost(&u)
		a.Costs++
		if total := cost.Total(); total != e.CostNanoUSD {
			a.differ(fmt.Sprintf("cost of attempt %d in nano-USD", e.AttemptNo), total, e.CostNanoUSD)
		}
		if e.BaselineKind == pricing.KindProvider {
			if b, ok := s.baseline(&u, e); ok && (b.NanoUSD != e.BaselineNanoUSD || b.Provider != e.BaselineProvider) {
				a.differ(fmt.Sprintf("baseline of attempt %d", e.AttemptNo), fmt.Sprint(b.Provider, " ", b.NanoUSD), fmt.Sprint(e.BaselineProvider, " ", e.BaselineNanoUSD))
			}
		}
	}
}

// baseline is the dearest of the candidates that could have served; false where they are not all known.
func (s *Stored) baseline(u *pricing.Usage, e *attempt.Event) (pricing.Baseline, bool) {
	first := &s.Attempts[0]
	if first.AttemptNo != 1 || first.Redecided || first.ConsideredTotal != len(first.Considered) {
		return pricing.Baseline{}, false
	}
	var options []pricing.Option
	for i := range first.Considered {
		c := &first.Considered[i]
		if c.ExcludedCode != "" {
			continue
		}
		schedule := s.schedule(e.Model, c.Provider, c.Region, e.OrganizationID)
		if schedule == nil {
			return pricing.Baseline{}, false
		}
		options = append(options, pricing.Option{Model: e.Model, Provider: c.Provider, Region: c.Region, Schedule: schedule})
	}
	return pricing.ProviderBaseline(u, e.CostNanoUSD, options), true
}

func usageOf(e *attempt.Event) pricing.Usage {
	return pricing.Usage{
		Input: e.InputTokens, Cached: e.CachedInputTokens, CacheWrite: e.CacheWriteTokens, CacheWrite1h: e.CacheWrite1hTokens,
		ImageInput: e.ImageInputTokens, AudioInput: e.AudioInputTokens, Output: e.OutputTokens, ImageOutput: e.ImageOutputTokens, AudioOutput: e.AudioOutputTokens,
		ServiceTier: e.ServiceTier,
	}
}

// schedule is what a mapping cost an organization; nil if the price book does not say.
func (s *Stored) schedule(model, provider, region, organization string) *pricing.Schedule {
	if s.Prices == nil {
		return nil
	}
	p, ok := s.Prices.Find(model, provider, region)
	if !ok {
		return nil
	}
	return &pricing.Schedule{
		Price: p.Price, Tiers: p.PriceTiers, ServiceTiers: p.ServiceTiers,
		Discount: resource.DiscountFor(s.Prices.DiscountsOf(organization), provider, model),
	}
}
