// Command bench measures Turnout, with everything on, beside a direct call and Go's own reverse proxy
// with no features, in one run on one machine: what is worth quoting is the ratio. See
// docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"turnout/deploy/local"
	"turnout/gateway"
	"turnout/internal/lifecycle"
)

func main() {
	local.Dispatch()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Roles this program plays in processes of their own, so that CPU is counted apart.
func run(ctx context.Context, args []string) error {
	if len(args) > 1 && args[0] == "role" {
		switch args[1] {
		case "upstream":
			pause, err := time.ParseDuration(args[2])
			if err != nil {
				return fmt.Errorf("pause: %w", err)
			}
			return serve(ctx, serveUpstream(pause), os.Stdout)
		case "proxy":
			h, err := serveProxy(args[2])
			if err != nil {
				return err
			}
			return serve(ctx, h, os.Stdout)
		case "gateway":
			return gateway.Main(ctx, lifecycle.Env{Args: args[2:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, nil)
		}
		return fmt.Errorf("no role %q", args[1])
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "interleaved rounds; medians are printed")
	seconds := flags.Duration("for", 5*time.Second, "length of one round")
	connections := flags.Int("connections", 64, "connections that saturate")
	rate := flags.Float64("rate", 500, "requests/s for latencies")
	fsync := flags.String("fsync", "interval", "spool.fsync of the gateway")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return compare(ctx, plan{rounds: *rounds, length: *seconds, connections: *connections, rate: *rate, fsync: *fsync})
}

type plan struct {
	rounds      int
	length      time.Duration
	connections int
	rate        float64
	fsync       string
}

// compare runs every target in turn, round by round, so that a drift of the machine hits all alike.
func compare(ctx context.Context, p plan) error {
	b, err := start(ctx, p.fsync)
	if err != nil {
		return errors.Join(err, b.stop())
	}
	type cell struct{ saturated, paced []round }
	results := map[string]map[bool]*cell{}
	for _, t := range b.targets {
		results[t.name] = map[bool]*cell{false: {}, true: {}}
	}
	for n := range p.rounds {
		for _, stream := range []bool{false, true} {
			for _, t := range b.targets {
				rate := p.rate
				if stream {
					rate /= 5
				}
				s, err := saturate(ctx, t, p.connections, stream, p.length)
				if err != nil {
					return errors.Join(err, b.stop())
				}
				l, err := pace(ctx, t, rate, stream, p.length)
				if err != nil {
					return errors.Join(err, b.stop())
				}
				c := results[t.name][stream]
				c.saturated, c.paced = append(c.saturated, s), append(c.paced, l)
				fmt.Fprintf(os.Stderr, "round %d/%d %-8s stream=%-5v %6.0f/s %6.0f us CPU, %d failed\n", n+1, p.rounds, t.name, stream, s.perSecond(), s.cpuPerRequest(), s.failures+l.failures)
				if s.failures+l.failures > 0 {
					return errors.Join(fmt.Errorf("%d requests to %s failed: nothing to compare", s.failures+l.failures, t.name), b.stop())
				}
			}
		}
	}
	for _, stream := range []bool{false, true} {
		fmt.Printf("\n%s, %d connections, medians of %d rounds of %s\n", map[bool]string{false: "plain, 1 KB", true: "streams of 50 chunks"}[stream], p.connections, p.rounds, p.length)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\trequests/s\tCPU us/request\tx proxy\tadded p50 ms\tadded p99 ms\tRSS MiB\t")
		proxyCPU := median(results["proxy"][stream].saturated, round.cpuPerRequest)
		base50 := median(results["direct"][stream].paced, ms(0.5))
		base99 := median(results["direct"][stream].paced, ms(0.99))
		for _, t := range b.targets {
			c := results[t.name][stream]
			cpu := median(c.saturated, round.cpuPerRequest)
			fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", t.name, median(c.saturated, round.perSecond), cpu, cpu/proxyCPU,
				median(c.paced, ms(0.5))-base50, median(c.paced, ms(0.99))-base99, median(c.saturated, func(r round) float64 { return r.rssMiB }))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return b.stop()
}

func ms(p float64) func(round) float64 {
	return func(r round) float64 { return float64(r.percentile(p).Microseconds()) / 1000 }
}

func median(rounds []round, figure func(round) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
