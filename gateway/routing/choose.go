package routing

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
	preferring := retry == nil && prefers(in) && electable > 1

	kept := -1
	switch {
	case session && retry == nil:
		kept = d.well(in, in.State.Pin, in.Config.Session.UptimeThreshold, r.ReasoningBound)
	case preferring:
		kept = d.well(in, in.State.Preferred, in.Config.Sticky.UptimeThreshold, false)
	}
	winner, priceOnly := d.rounds(in, kept)
	if kept >= 0 && preferring && d.Scores[kept].compared-d.Scores[winner].compared > steps(in.Config.Sticky.ScoreMargin) {
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
	case preferring && kept < 0 && !explored:
		d.Update, d.TTLSeconds = UpdatePreferred, int64(in.Config.Sticky.TTL.Seconds())
	}
	if d.Reason == "" { // else a fallback from the provider that was named
		d.Reason = reason(in, electable, explored, kept >= 0, priceOnly)
	}
}

// reason is the first that applies.
func reason(in *Input, electable int, explored, kept, priceOnly bool) Reason {
	switch {
	case in.Request.Provider != "":
		return DirectProvider
	case inSession(in):
		return SessionSticky
	case len(in.Candidates) == 1:
		return SingleProvider
	case electable == 1:
		return SingleCandidate
	case explored:
		return RandomExploration
	case len(in.Request.Order) > 0:
		return ProviderOrder
	case kept:
		return StablePreferred
	case priceOnly:
		return PriceOnly
	default:
		return WeightedScore
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
