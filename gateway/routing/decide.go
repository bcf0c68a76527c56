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
	if cap(d.codes) < len(in.Candidates) {
		d.codes = make([]Code, len(in.Candidates))
	}
	d.codes = d.codes[:len(in.Candidates)]
	clear(d.codes)
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
