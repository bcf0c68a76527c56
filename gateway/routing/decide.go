package routing

// hybridUptime is the uptime below which a tenant's keys give way to the host's in hybrid mode.
const hybridUptime = 85

// Decide chooses the candidate that serves a request's first attempt and writes the choice and all
// that led to it to out, whose earlier contents are forgotten and whose memory is used again.
func Decide(in *Input, out *Decision) {
	out.reset(in)
	if r := &in.Request; r.StrategyField && r.Provider != "" {
		out.Error = Error{Code: ErrInvalidValue, Message: "routing: cannot be combined with an explicit provider; " +
			"leave it out, or ask for the model without " + r.Provider}
		return
	}
	out.decide(in, nil)
}

// Next chooses the candidate for a further attempt on the same input: among those not tried, with
// both rounds held again, without exploration, preference or pin. It returns false where the request
// must not move to another candidate or none is left; out.Error then says why.
//
// Another key of the same provider and region is not Next's business, except that in hybrid mode a
// candidate whose tenant keys were tried may come again with the host's.
func Next(in *Input, retry *Retry, out *Decision) bool {
	out.reset(in)
	r := &in.Request
	if r.Provider != "" || r.BoundTo != "" || r.NoFallback || inSession(in) && retry.LargerContext == 0 {
		out.Error = Error{Code: ErrNoProvider, Message: "this request may not move to another provider"}
		return false
	}
	out.decide(in, retry)
	return out.Selected >= 0
}

func (d *Decision) reset(in *Input) {
	d.codes = append(d.codes[:0], make([]Code, len(in.Candidates))...)
	*d = Decision{
		Selected: -1, Propensity: 1,
		Scores: d.Scores[:0], Excluded: d.Excluded[:0], codes: d.codes, groups: d.groups[:0],
	}
}

func (d *Decision) decide(in *Input, retry *Retry) {
	r := &in.Request
	d.prepare(in)
	left, spare := d.filter(in, retry, asked), 0
	if r.Provider != "" || r.BoundTo != "" {
		spare = d.filter(in, retry, others)
	}
	if left == 0 && spare > 0 && reroutable(r) && d.last(in) == CodeRateLimited {
		d.open, left = true, spare
		d.Reason, d.OriginalProvider = RateLimitFallback, r.Provider
	}
	if left == 0 {
		d.list(in)
		d.rounds(in, -1)
		d.exclude(in)
		d.fail(in)
		return
	}
	d.choose(in, retry)
	if d.leaveLowUptime(in) {
		d.choose(in, retry)
	}
	d.ToolChoiceStripped = d.stripped[sideOf(r, &in.Candidates[d.Selected])]
	d.exclude(in)
}

// prepare settles what does not depend on the candidates.
func (d *Decision) prepare(in *Input) {
	r, t := &in.Request, &in.Config.Thresholds
	seed := Seed(r.ID)
	d.Draw, d.Pick = drawOf(seed), pickOf(seed)
	if r.Draw != nil {
		d.Draw = *r.Draw
	}
	if r.Pick != nil {
		d.Pick = *r.Pick
	}
	workload := in.Workload
	if r.Coding {
		workload = WorkloadCoding
	}
	d.mix = resolveMix(t, workload, in.Observed)
	d.HitRate, d.OutputRatio = d.mix.hitRate, d.mix.outputRatio
	d.CacheRelevant = r.PromptTokens >= t.CachePromptTokens || inSession(in)
	d.shares = activeWeights(in, d.CacheRelevant)
	for i := range in.Candidates {
		d.regional = d.regional || in.Candidates[i].Region != ""
	}
}

// electable says whether a candidate may be chosen. An eligible one that the request named nothing
// of is scored, so that one can compare, but it is not.
func (d *Decision) electable(in *Input, i int) bool {
	return d.codes[i] == Eligible && (d.open || sideOf(&in.Request, &in.Candidates[i]) == asked)
}

// narrow settles whose keys serve. In hybrid mode the tenant's do where they can: candidates without
// one are excluded, unless all that have one are unwell and the host's keys reach somebody who is well.
func (d *Decision) narrow(in *Input, retry *Retry) {
	d.Credential = in.Mode.keys()
	if in.Mode != ModeHybrid {
		return
	}
	keyed, keyedWell, hostedWell := false, false, false
	for i := range in.Candidates {
		if !d.electable(in, i) {
			continue
		}
		usable, well := d.usable(in, retry, i), !in.Candidates[i].below(hybridUptime)
		keyed = keyed || usable&BYOK != 0
		keyedWell = keyedWell || usable&BYOK != 0 && well
		hostedWell = hostedWell || usable&Platform != 0 && well
	}
	code := CodeNoProviderKey
	d.Credential = BYOK
	switch {
	case !keyed:
		d.Credential = Platform
	case !keyedWell && hostedWell:
		d.Credential, code = Platform, CodeLowUptime
	}
	for i := range in.Candidates {
		if d.electable(in, i) && d.usable(in, retry, i)&d.Credential == 0 {
			d.codes[i] = code
		}
	}
}

func (d *Decision) usable(in *Input, retry *Retry, i int) Credentials {
	return in.Candidates[i].Credentials &^ retry.tried(i)
}

// list enters the eligible candidates in d.Scores and gathers them by provider.
func (d *Decision) list(in *Input) {
	d.Scores, d.groups = d.Scores[:0], d.groups[:0]
	for i := range in.Candidates {
		if d.codes[i] != Eligible {
			continue
		}
		n := len(d.Scores)
		d.Scores = append(d.Scores, Scored{Candidate: i, LostTo: -1, out: !d.electable(in, i)})
		s := &d.Scores[n]
		d.weigh(in, s)
		s.group = d.groupOf(in, &in.Candidates[i])
		g := &d.groups[s.group]
		g.to, g.members, g.standing = n+1, g.members+1, n
	}
}

// groupOf finds the group of the candidate's provider or begins one.
func (d *Decision) groupOf(in *Input, c *Candidate) int {
	n := len(d.Scores) - 1
	for g := len(d.groups) - 1; g >= 0 && d.regional; g-- {
		if in.Candidates[d.Scores[d.groups[g].from].Candidate].Provider == c.Provider {
			return g
		}
	}
	d.groups = append(d.groups, group{from: n})
	return len(d.groups) - 1
}

// rounds lets the regions of each provider compete at home, then the providers. The candidate
// d.Scores[kept], unless kept is -1, stands for its provider whoever wins at home. It returns the
// index of the winner and whether price alone decided.
func (d *Decision) rounds(in *Input, kept int) (winner int, priceOnly bool) {
	for g := range d.groups {
		if d.groups[g].members > 1 {
			d.home(in, g, kept)
		}
	}
	for i := range d.Scores {
		s := &d.Scores[i]
		s.playing = d.groups[s.group].standing == i
	}
	return d.compete(0, len(d.Scores), in.Config.Thresholds.UptimePenalty)
}

// home holds the round among the regions of one provider.
func (d *Decision) home(in *Input, g, kept int) {
	group := &d.groups[g]
	for i := group.from; i < group.to; i++ {
		d.Scores[i].playing = d.Scores[i].group == g
	}
	group.standing, _ = d.compete(group.from, group.to, in.Config.Thresholds.UptimePenalty)
	if kept >= 0 && d.Scores[kept].group == g {
		group.standing = kept
	}
	for i := group.from; i < group.to; i++ {
		s := &d.Scores[i]
		if s.group != g {
			continue
		}
		s.LostTo = -1
		if i != group.standing {
			s.LostTo = d.Scores[group.standing].Candidate
		}
	}
}

// choose picks among the electable candidates, of which there is at least one.
func (d *Decision) choose(in *Input, retry *Retry) {
	r := &in.Request
	d.narrow(in, retry)
	d.list(in)
	electable := 0
	for i := range d.Scores {
		if !d.Scores[i].out {
			electable++
		}
	}
	session := inSession(in)
	prefers := retry == nil && prefers(in) && electable > 1

	kept := -1
	switch {
	case session && retry == nil:
		kept = d.well(in, in.State.Pin, in.Config.Session.UptimeThreshold, r.ReasoningBound)
	case prefers:
		kept = d.well(in, in.State.Preferred, in.Config.Sticky.UptimeThreshold, false)
	}
	winner, priceOnly := d.rounds(in, kept)
	if kept >= 0 && prefers && d.Scores[kept].compared-d.Scores[winner].compared > steps(in.Config.Sticky.ScoreMargin) {
		kept = -1
		winner, priceOnly = d.rounds(in, kept)
	}
	if kept >= 0 {
		winner = kept
	} else if len(r.Order) > 0 {
		winner = d.firstOf(in, r.Order, winner)
	}
	d.Providers = d.standing()

	explored := false
	if rate := explorationRate(in); rate > 0 && retry == nil && d.Providers > 1 {
		winner, explored = d.explore(rate, winner)
	}
	d.Selected = d.Scores[winner].Candidate

	switch {
	case session:
		d.Update, d.TTLSeconds = UpdatePin, int64(in.Config.Session.TTL.Seconds())
	case prefers && kept < 0 && !explored:
		d.Update, d.TTLSeconds = UpdatePreferred, int64(in.Config.Sticky.TTL.Seconds())
	}
	switch {
	case d.Reason != "": // a fallback from the provider that was named
	case r.Provider != "":
		d.Reason = DirectProvider
	case session:
		d.Reason = SessionSticky
	case len(in.Candidates) == 1:
		d.Reason = SingleProvider
	case electable == 1:
		d.Reason = SingleCandidate
	case explored:
		d.Reason = RandomExploration
	case len(r.Order) > 0:
		d.Reason = ProviderOrder
	case kept >= 0:
		d.Reason = StablePreferred
	case priceOnly:
		d.Reason = PriceOnly
	default:
		d.Reason = WeightedScore
	}
}

// well finds a stored place among the electable candidates, if its uptime is unknown or not below
// the threshold; -1 otherwise.
func (d *Decision) well(in *Input, place Place, threshold float64, whateverUptime bool) int {
	if place.Provider == "" {
		return -1
	}
	for i := range d.Scores {
		s := &d.Scores[i]
		c := &in.Candidates[s.Candidate]
		if s.out || c.Provider != place.Provider || c.Region != place.Region {
			continue
		}
		if whateverUptime || !c.below(threshold) {
			return i
		}
	}
	return -1
}

// firstOf is the standing candidate of the first provider in the order that has one, else the winner.
func (d *Decision) firstOf(in *Input, order []string, winner int) int {
	for _, provider := range order {
		for g := range d.groups {
			i := d.groups[g].standing
			if s := &d.Scores[i]; !s.out && in.Candidates[s.Candidate].Provider == provider {
				return i
			}
		}
	}
	return winner
}

// standing counts the providers that may be chosen in the last round.
func (d *Decision) standing() int {
	n := 0
	for g := range d.groups {
		if !d.Scores[d.groups[g].standing].out {
			n++
		}
	}
	return n
}

// explore replaces the choice by a uniform pick among the providers where the draw falls below the
// rate, and records with which probability what is returned was to be chosen.
func (d *Decision) explore(rate float64, choice int) (picked int, explored bool) {
	n := float64(len(d.groups))
	picked = choice
	if explored = d.Draw < rate; explored {
		picked = d.groups[min(int(d.Pick*n), len(d.groups)-1)].standing
	}
	d.Propensity = rate / n
	if picked == choice {
		d.Propensity += 1 - rate
	}
	return picked, explored
}

// explorationRate is 0 for requests that must not explore.
func explorationRate(in *Input) float64 {
	r := &in.Request
	if inSession(in) || r.Provider != "" || r.BoundTo != "" || len(r.Order) > 0 || r.ReasoningBound {
		return 0
	}
	if in.ExplorationRate != nil {
		return min(max(*in.ExplorationRate, 0), 1)
	}
	if r.Strategy != StrategyAuto {
		return 0
	}
	return min(max(in.Config.Thresholds.ExplorationRate, 0), 1)
}

// inSession says whether the request's session counts.
func inSession(in *Input) bool { return in.Request.Session && in.Config.Session.Enabled }

// prefers says whether the stable preference is for requests like this one.
func prefers(in *Input) bool {
	r := &in.Request
	return in.Config.Sticky.Enabled && !inSession(in) && r.Provider == "" && r.BoundTo == "" &&
		len(r.Order) == 0 && !r.AnyModel
}

// reroutable says whether somebody else may serve although a provider was named.
func reroutable(r *Request) bool {
	return r.Provider != "" && !r.Strict && !r.NoFallback && r.BoundTo == ""
}

// leaveLowUptime excludes the named provider that was chosen, if its uptime is low and somebody is
// strictly better, and everybody who is not. It returns whether there is to be another choice.
func (d *Decision) leaveLowUptime(in *Input) bool {
	r, chosen := &in.Request, &in.Candidates[d.Selected]
	if !reroutable(r) || r.ReasoningBound || d.Reason != DirectProvider ||
		!chosen.below(in.Config.Retry.LowUptimeFallbackThreshold) {
		return false
	}
	uptime := Round6(chosen.Metrics.Uptime)
	better := func(c *Candidate) bool {
		return c.Metrics.Known&KnownUptime == 0 || Round6(c.Metrics.Uptime) > uptime
	}
	found := false
	for i := range in.Candidates {
		found = found || d.codes[i] == Eligible && better(&in.Candidates[i])
	}
	if !found {
		return false
	}
	for i := range in.Candidates {
		if d.codes[i] == Eligible && !better(&in.Candidates[i]) {
			d.codes[i] = CodeLowUptime
		}
	}
	d.open = true
	d.Reason, d.OriginalProvider = LowUptimeFallback, r.Provider
	d.OriginalUptime, d.OriginalUptimeKnown = uptime, true
	return true
}

// exclude lists the candidates that were dropped.
func (d *Decision) exclude(in *Input) {
	d.Excluded = d.Excluded[:0]
	for i := range in.Candidates {
		if d.codes[i] != Eligible {
			d.Excluded = append(d.Excluded, Exclusion{Candidate: i, Code: d.codes[i]})
		}
	}
}
