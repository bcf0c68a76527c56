package routing

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
