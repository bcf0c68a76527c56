package main

import (
	"fmt"
	"strconv"

	"turnout/deploy/load"
	"turnout/deploy/sim"
)

// rates are what a provider takes, in nano-USD per token.
type rates struct{ input, cached, output float64 }

func ratesOf(p sim.Price) (rates, error) {
	var r rates
	for _, f := range []struct {
		text string
		into *float64
	}{{p.Input, &r.input}, {p.CachedInput, &r.cached}, {p.Output, &r.output}} {
		usd, err := strconv.ParseFloat(f.text, 64) // per 1M tokens
		if err != nil {
			return r, fmt.Errorf("price %q: %w", f.text, err)
		}
		*f.into = usd * 1000
	}
	return r, nil
}

func (r rates) cost(input, cached, output int64) float64 {
	return r.input*float64(input-cached) + r.cached*float64(cached) + r.output*float64(output)
}

// bounds say what no routing can beat, worked out from the trace alone.
type bounds struct {
	cachedShare float64 // of all input tokens, with one cache that forgets nothing
	least       float64 // nano-USD: each request at whoever is cheapest for it, every cache as if it had seen all
	together    float64 // nano-USD: all at one provider, the one that is then cheapest; this can be done
	at          string  // that provider
}

// bound replays the trace against one endless cache. A provider's own cache has never seen more than
// that one, so a request can cost nowhere less than there.
func bound(trace []load.TraceRequest, blockTokens int, providers []sim.Provider, price func(sim.Provider) sim.Price) (bounds, error) {
	var b bounds
	all := make([]rates, len(providers))
	for i, p := range providers {
		var err error
		if all[i], err = ratesOf(price(p)); err != nil {
			return b, fmt.Errorf("provider %s: %w", p.ID, err)
		}
	}
	totals := make([]float64, len(providers))
	var input, cached int64
	cache := newEndless(blockTokens)
	for i := range trace {
		t := &trace[i]
		in, out := int64(t.InputTokens), int64(max(t.OutputTokens, 1))
		hits := cache.use(t)
		input, cached = input+in, cached+hits
		least := all[0].cost(in, hits, out)
		for k := range all {
			c := all[k].cost(in, hits, out)
			totals[k] += c
			least = min(least, c)
		}
		b.least += least
	}
	b.cachedShare = float64(cached) / float64(max(input, 1))
	b.together, b.at = totals[0], providers[0].ID
	for k := range totals {
		if totals[k] < b.together {
			b.together, b.at = totals[k], providers[k].ID
		}
	}
	return b, nil
}

// endless is a prompt cache that forgets nothing. It keeps beginnings of prompts, as chains of blocks
// numbered as they are first seen; only whole blocks are kept, as the simulators do.
type endless struct {
	block int
	next  map[link]int
}

type link struct {
	after int // number of the beginning before this block; 0: none
	id    uint64
	part  int // of the trace's block
}

func newEndless(blockTokens int) *endless { return &endless{blockTokens, map[link]int{}} }

// use returns how many tokens of the prompt were known, and keeps all of it.
func (e *endless) use(t *load.TraceRequest) (cached int64) {
	at, known := 0, true
	for k := range t.InputTokens / e.block {
		token := k * e.block
		l := link{at, t.Blocks[token/load.BlockTokens], token % load.BlockTokens}
		to, ok := e.next[l]
		if !ok {
			known = false
			to = len(e.next) + 1
			e.next[l] = to
		}
		if known {
			cached += int64(e.block)
		}
		at = to
	}
	return cached
}
