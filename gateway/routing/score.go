package routing

import (
	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// maxThroughputScore caps how much slowness may cost.
const maxThroughputScore = 3

// shares are the active weights divided by their sum. None active: candidates compete by price alone.
type shares struct {
	price, uptime, throughput, latency, cache float64
	none                                      bool
}

// activeWeights returns the shares a request is scored by. A weight that does not apply is dropped,
// so that the others share what it had.
func activeWeights(in *Input, cacheRelevant bool) shares {
	r, w := &in.Request, in.Config.Weights
	switch r.Strategy {
	case StrategyPrice:
		w = resource.Weights{Price: 0.9, ImagePrice: 0.9, Uptime: 0.1}
	case StrategyThroughput:
		w = resource.Weights{Throughput: 0.9, Uptime: 0.1}
	case StrategyLatency:
		w = resource.Weights{Latency: 0.9, Uptime: 0.1}
	case StrategyAuto:
	}
	if r.ImageOutput {
		w.Price = w.ImagePrice
	}
	if !r.Stream {
		w.Latency = 0
	}
	if !cacheRelevant {
		w.Cache = 0
	}
	largest := max(w.Price, w.Uptime, w.Throughput, w.Latency, w.Cache)
	if !(largest > 0) {
		return shares{none: true}
	}
	// Divided by the largest first, absurdly large or small weights keep their proportions.
	s := shares{
		price: w.Price / largest, uptime: w.Uptime / largest, throughput: w.Throughput / largest,
		latency: w.Latency / largest, cache: w.Cache / largest,
	}
	total := s.price + s.uptime + s.throughput + s.latency + s.cache
	s.price /= total
	s.uptime /= total
	s.throughput /= total
	s.latency /= total
	s.cache /= total
	return s
}

// weigh fills in what an eligible candidate is scored by.
func (d *Decision) weigh(in *Input, s *Scored) {
	c, t := &in.Candidates[s.Candidate], &in.Config.Thresholds
	s.Price, s.CacheSupport = c.RankingPrice, c.CacheSupported
	if c.Schedule != nil {
		mix := pricing.Mix{Blend: d.CacheRelevant, HitRate: d.mix.hitRate, OutputRatio: d.mix.outputRatio}
		if c.HitRateKnown && !d.mix.fixedHitRate {
			mix.HitRate = c.HitRate
		}
		s.Price = c.Schedule.Ranking(in.Request.PromptTokens, in.Request.ServiceTier, mix)
		s.CacheSupport = c.Schedule.CachesInput()
	}
	s.Price = Round6(s.Price)
	s.Priority = Round6(priority(in, c))
	s.Known = c.Metrics.Known
	s.Uptime = Round6(known(s.Known, KnownUptime, c.Metrics.Uptime, t.DefaultUptime))
	s.Throughput = Round6(known(s.Known, KnownThroughput, c.Metrics.Throughput, t.DefaultThroughput))
	s.Latency = Round6(known(s.Known, KnownLatency, c.Metrics.Latency, t.DefaultLatency))
}

func known(have, want Known, value, otherwise float64) float64 {
	if have&want != 0 {
		return value
	}
	return otherwise
}

// compete holds one round among the candidates of d.Scores[from:to] that are in it, scores each
// against the best, and returns the index of the winner and whether price alone decided.
// The lowest score wins, the first of equals.
func (d *Decision) compete(from, to int, penaltyBelow float64) (winner int, priceOnly bool) {
	best := bests(d.Scores[from:to])
	priceOnly = d.shares.none || best.known == 0
	var perPriority lowest
	if priceOnly {
		perPriority = lowestPerPriority(d.Scores[from:to])
	}
	winner = -1
	for i := from; i < to; i++ {
		s := &d.Scores[i]
		if !s.playing {
			continue
		}
		if priceOnly {
			s.Contributions = Contributions{Price: part(1, perPriority.of(s.perPriority()))}
		} else {
			s.Contributions = contributions(s, &best, &d.shares, penaltyBelow)
		}
		s.Score = s.Contributions.sum()
		s.compared = steps(s.Score)
		if winner < 0 || s.beats(&d.Scores[winner]) {
			winner = i
		}
	}
	return winner, priceOnly
}

// beats says whether s is the better choice than an earlier candidate.
func (s *Scored) beats(earlier *Scored) bool {
	if s.out != earlier.out {
		return earlier.out
	}
	return s.compared < earlier.compared
}

// best holds what the candidates of a round are measured against.
type best struct {
	price      lowest
	uptime     float64
	throughput float64
	latency    float64
	known      Known
}

// lowest is the smallest of some prices and, since nothing can be divided by a price of zero, the
// smallest that is above it.
type lowest struct{ all, positive float64 }

func (l *lowest) add(price float64, first bool) {
	if first || price < l.all {
		l.all = price
	}
	if price > 0 && (l.positive == 0 || price < l.positive) {
		l.positive = price
	}
}

// of is how much dearer a price is: p/min - 1, or where something is free p / cheapest positive.
func (l *lowest) of(price float64) float64 {
	switch {
	case l.all > 0:
		return price/l.all - 1
	case price > 0:
		return price / l.positive
	default:
		return 0
	}
}

func bests(scores []Scored) best {
	var b best
	first := true
	for i := range scores {
		s := &scores[i]
		if !s.playing {
			continue
		}
		b.price.add(s.Price, first)
		b.known |= s.Known
		b.uptime = max(b.uptime, s.Uptime)
		b.throughput = max(b.throughput, s.Throughput)
		if first || s.Latency < b.latency {
			b.latency = s.Latency
		}
		first = false
	}
	return b
}

func contributions(s *Scored, b *best, w *shares, penaltyBelow float64) Contributions {
	slowness := min(ratio(b.throughput, s.Throughput, maxThroughputScore), maxThroughputScore)
	c := Contributions{
		Price:      part(w.price, b.price.of(s.Price)),
		Uptime:     part(w.uptime, ratio(b.uptime, s.Uptime, 1)),
		Throughput: part(w.throughput, slowness),
		Priority:   1 - s.Priority,
	}
	if b.latency > 0 {
		c.Latency = part(w.latency, s.Latency/b.latency-1)
	}
	if !s.CacheSupport {
		c.Cache = w.cache
	}
	if s.Uptime < penaltyBelow {
		short := (penaltyBelow - s.Uptime) / penaltyBelow * 5
		c.UptimePenalty = short * short
	}
	return c
}

// endless stands for what a float64 cannot hold: the sum of several is still a number.
const endless = 1e300

// part is a factor's contribution. A factor without weight contributes nothing, however bad it is.
func part(share, subScore float64) float64 {
	if share == 0 {
		return 0
	}
	return min(share*subScore, endless)
}

// lowestPerPriority is what price-only candidates of a round are measured against.
func lowestPerPriority(scores []Scored) lowest {
	var l lowest
	first := true
	for i := range scores {
		if scores[i].playing {
			l.add(scores[i].perPriority(), first)
			first = false
		}
	}
	return l
}

// perPriority is what candidates are compared by where nothing but the price is known.
func (s *Scored) perPriority() float64 { return min(s.Price/s.Priority, endless) }

// ratio is best/x - 1 for figures of which more is better; x = 0 gives atZero.
func ratio(best, x, atZero float64) float64 {
	if x <= 0 {
		return atZero
	}
	return best/x - 1
}

func (c *Contributions) sum() float64 {
	return c.Price + c.Uptime + c.Throughput + c.Latency + c.Cache + c.Priority + c.UptimePenalty
}
