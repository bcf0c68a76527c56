package main

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Two requests of 1,024 tokens share their first 512-token block, which is four blocks of 128; a third
// has 100 tokens more, which fill no block, and is known but for the last block of its second part.
func TestBoundByHand(t *testing.T) {
	trace := []load.TraceRequest{
		{InputTokens: 1024, OutputTokens: 10, Blocks: []uint64{0, 1}},
		{InputTokens: 1024, OutputTokens: 10, Blocks: []uint64{0, 2}}, // 512 known
		{InputTokens: 1000, OutputTokens: 0, Blocks: []uint64{0, 1}},  // 896 known: 7 whole blocks
		{InputTokens: 1124, OutputTokens: 10, Blocks: []uint64{0, 1, 9}},
	}
	providers := []sim.Provider{
		{ID: "flat", Models: []sim.Model{{Price: sim.Price{Input: "1", CachedInput: "1", Output: "2"}}}},
		{ID: "cached", Models: []sim.Model{{Price: sim.Price{Input: "1.5", CachedInput: "0.1", Output: "2"}}}},
	}
	b, err := bound(trace, 128, providers, func(p sim.Provider) sim.Price { return p.Models[0].Price })
	if err != nil {
		t.Fatal(err)
	}
	hits := 512.0 + 896 + 1024
	input := 1024.0 + 1024 + 1000 + 1124
	if want := hits / input; math.Abs(b.cachedShare-want) > 1e-9 {
		t.Errorf("cached share %v, want %v", b.cachedShare, want)
	}
	out := 2.0 * (10 + 10 + 1 + 10) // at least one token is asked for
	flat, cached := (input + out), 1.5*(input-hits)+.1*hits+out
	if want := 1000 * min(flat, cached); math.Abs(b.together-want) > 1e-3 || b.at != "cached" {
		t.Errorf("together %v at %s, want %v", b.together, b.at, want)
	}
	// The first is cheapest at flat, the others at cached: 512*1.5+51.2 < 1024, 104*1.5+89.6, 100*1.5+102.4.
	if want := 1000 * (1024 + 819.2 + 245.6 + 252.4 + out); math.Abs(b.least-want) > 1e-3 {
		t.Errorf("least %v, want %v", b.least, want)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-trace", "nowhere.jsonl"}, "nowhere.jsonl is missing: it is the hour of chat of the Mooncake traces"},
		{[]string{"-trace", "../../load/testdata/azure-sample.csv"}, "without block ids"},
		{[]string{"-trace", "../../load/testdata/mooncake-sample.jsonl", "-speeds", "slow"}, `"slow" is neither equal nor default`},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.args, err, c.says)
		}
	}
}

// Forty sessions of five turns, each turn two blocks longer: sessions find what was cached, a random
// choice among five finds little of it.
func TestSessionsFindTheirCaches(t *testing.T) {
	var trace []load.TraceRequest
	for turn := range 5 {
		for session := range 40 {
			blocks := []uint64{0}
			for k := range 2 * (turn + 1) {
				blocks = append(blocks, uint64(1000*session+k+1))
			}
			trace = append(trace, load.TraceRequest{
				At: time.Duration(40*turn+session) * 100 * time.Millisecond, InputTokens: 512 * len(blocks), OutputTokens: 10, Blocks: blocks,
			})
		}
	}
	providers, err := providersAt("equal")
	if err != nil {
		t.Fatal(err)
	}
	least, err := bound(trace, 128, providers, func(p sim.Provider) sim.Price { return p.Models[0].Price })
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(t.Context(), providers)
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	results, err := play(t.Context(), s, trace, 5, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cached := map[string]float64{}
	for i, r := range results {
		cached[ways[i].id] = float64(r.CachedTokens) / float64(r.PromptTokens)
		if cost := float64(r.CostNanoUSD); cost < least.least {
			t.Errorf("%s cost %v, below the lower bound %v", ways[i].id, cost, least.least)
		}
	}
	t.Logf("cached share of the input: %v; at most %v", cached, least.cachedShare)
	if cached["sessions"] < .9*least.cachedShare || cached["random"] > .6*least.cachedShare {
		t.Errorf("cached share of the input: %v; at most %v", cached, least.cachedShare)
	}
	var table bytes.Buffer
	if err := report(&table, results, least); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(table.String(), "\n"); lines != 2+len(ways)+2 {
		t.Errorf("%d lines:\n%s", lines, &table)
	}
}
