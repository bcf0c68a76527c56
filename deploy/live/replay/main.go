// Command replay plays an hour of real chat, sped up, through five simulated providers with prompt
// caches, once for each way of choosing a provider, side by side, and prints what each cost and how
// much of the input it found cached. The table of docs/routing.md is its output.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"turnout/deploy/load"
	"turnout/deploy/local"
	"turnout/deploy/sim"
)

func main() {
	local.Dispatch()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// way is one way of choosing, a project and a model of its own: the same providers serve all the
// models, and keep a cache and metrics for each.
type way struct {
	id       string
	says     string
	strategy string
	routing  map[string]any
	sessions bool
}

func (w *way) model() string { return "chat-" + w.id }

var ways = []way{
	{id: "random", says: "random choice", routing: map[string]any{"thresholds": map[string]any{"exploration_rate": 1}}},
	{id: "price", says: "`price` at list price (h 0, r 1)", strategy: "price", routing: map[string]any{"thresholds": map[string]any{"cache_hit_rate": 0, "cache_output_ratio": 1}}},
	{id: "auto", says: "`auto` without sessions"},
	{id: "sessions", says: "`auto` with sessions", sessions: true},
}

const defaultTrace = "../shared/data/mooncake-conversation.jsonl"

type options struct {
	trace    string
	speed    float64
	requests int
	speeds   string
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.trace, "trace", defaultTrace, "Mooncake trace to replay (FAST'25, mooncake_trace.jsonl or conversation_trace.jsonl of github.com/kvcache-ai/Mooncake)")
	flags.Float64Var(&o.speed, "speed", 12, "how many times faster than it was recorded")
	flags.IntVar(&o.requests, "requests", 0, "only the first of the trace; 0: all")
	flags.StringVar(&o.speeds, "speeds", "equal", "of the providers: equal, or default for those of turnout sim")
	if err := flags.Parse(args); err != nil {
		return err
	}
	trace, err := readTrace(o.trace)
	if err != nil {
		return err
	}
	if o.requests > 0 {
		trace = trace[:min(o.requests, len(trace))]
	}
	providers, err := providersAt(o.speeds)
	if err != nil {
		return err
	}
	least, err := bound(trace, providers[0].Behavior.Cache.BlockTokens, providers, func(p sim.Provider) sim.Price { return p.Models[0].Price })
	if err != nil {
		return err
	}
	s, err := start(ctx, providers)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	results, err := play(ctx, s, trace, o.speed, progress)
	if err = errors.Join(err, s.stop()); err != nil {
		return err
	}
	return report(out, results, least)
}

func readTrace(path string) ([]load.TraceRequest, error) {
	trace, err := load.ReadTrace(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: it is the hour of chat of the Mooncake traces (FAST'25), 12,031 JSON lines with timestamp, input_length, output_length and hash_ids; name your copy with -trace FILE", path)
	}
	if err != nil {
		return nil, err
	}
	if trace[0].Blocks == nil {
		return nil, fmt.Errorf("%s: a trace without block ids says nothing about caches: name a Mooncake trace with -trace FILE", path)
	}
	return trace, nil
}

// providersAt are the simulators' own five, each with one model for each way of choosing.
func providersAt(speeds string) ([]sim.Provider, error) {
	providers := slices.Clone(sim.Default())
	for i := range providers {
		p := &providers[i]
		small := p.Models[0]
		p.Models = nil
		for _, w := range ways {
			m := small
			m.ID = w.model()
			p.Models = append(p.Models, m)
		}
		p.Behavior.ChunkTokens = 64
		switch speeds {
		case "equal":
			p.Behavior.TTFT, p.Behavior.TokenRate = sim.Fixed(200), sim.Fixed(120)
		case "default":
		default:
			return nil, fmt.Errorf("speeds: %q is neither equal nor default", speeds)
		}
	}
	return providers, nil
}

// underway bounds the requests of one way that are under way at a time. Each holds four sockets of this
// process, so the four ways stay within 8,000.
const underway = 500

// play replays the trace in every way at once, as streams.
func play(ctx context.Context, s *stack, trace []load.TraceRequest, speed float64, progress io.Writer) ([]load.Summary, error) {
	results, failed := make([]load.Summary, len(ways)), make([]error, len(ways))
	var done, total = 0, len(ways) * len(trace)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, w := range ways {
		wg.Go(func() {
			results[i], failed[i] = load.Run(ctx, load.Options{
				URL: s.url, Key: tokenOf(w.id), Models: []string{w.model()}, Trace: trace, Speed: speed, Sessions: w.sessions,
				StreamShare: 1, Concurrency: underway, Seed: 1,
			}, func(load.Result) {
				mu.Lock()
				defer mu.Unlock()
				if done++; done%2000 == 0 || done == total {
					fmt.Fprintf(progress, "%d of %d requests\n", done, total)
				}
			})
			r := &results[i]
			if lost := r.Requests - r.OK; failed[i] == nil && lost > 0 {
				fmt.Fprintf(progress, "%s: %d of %d requests failed: %v\n", w.id, lost, r.Requests, r.Errors)
				if lost*1000 > r.Requests {
					failed[i] = fmt.Errorf("%s: more than one in a thousand requests failed: there is nothing to compare", w.id)
				}
			}
		})
	}
	wg.Wait()
	return results, errors.Join(failed...)
}

// report writes the table as Markdown.
func report(out io.Writer, results []load.Summary, least bounds) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', tabwriter.Debug)
	random := float64(results[0].CostNanoUSD)
	line := func(says string, nano, cached float64, where string) {
		fmt.Fprintf(w, "\t %s\t %.2f\t %.0f %%\t %.1f %%\t %s\t\n", says, nano/1e9, 100*nano/random, 100*cached, where)
	}
	fmt.Fprintf(w, "\t provider chosen by\t cost, USD\t of random\t input cached\t shares of requests\t\n\t---\t---:\t---:\t---:\t---\t\n")
	for i, r := range results {
		line(ways[i].says, float64(r.CostNanoUSD), float64(r.CachedTokens)/float64(max(r.PromptTokens, 1)), shares(&r))
	}
	line("all at the one that is then cheapest", least.together, least.cachedShare, least.at)
	line("lower bound", least.least, least.cachedShare, "each request where it is cheapest, every cache as if it had seen all")
	if err := w.Flush(); err != nil {
		return err
	}
	for l := range strings.Lines(table.String()) {
		if _, err := io.WriteString(out, strings.TrimLeft(l, " ")); err != nil {
			return err
		}
	}
	return nil
}

func shares(r *load.Summary) string {
	type share struct {
		id string
		of float64
	}
	var all []share
	for id, p := range r.Providers {
		all = append(all, share{strings.TrimPrefix(id, "sim-"), p.Share})
	}
	slices.SortFunc(all, func(a, b share) int {
		if a.of != b.of {
			if a.of > b.of {
				return -1
			}
			return 1
		}
		return strings.Compare(a.id, b.id)
	})
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s %.0f %%", s.id, 100*s.of))
	}
	return strings.Join(out, ", ")
}
