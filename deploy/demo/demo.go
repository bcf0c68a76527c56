// Package demo is `turnout demo`: the main job, unattended, in under 90 seconds. It starts the whole
// stack on free ports, drives it, lets the busiest provider fail, shows traffic leave it and come
// back, and then balances the books. It exits 1 if traffic did not leave or anything does not match.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"turnout/analytics"
	"turnout/analytics/queries"
	"turnout/deploy/dev"
	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/chx"
	"turnout/internal/lifecycle"
	"turnout/schemas/attempt"
)

// The script. Leaving is judged on what was called once a node has had leaveGrace to notice.
const (
	surveyFor   = 4 * time.Second
	healthyFor  = 10 * time.Second
	failingFor  = 20 * time.Second
	recoverFor  = 40 * time.Second
	tick        = 2 * time.Second
	leaveGrace  = 4 * time.Second
	rate        = 40 // requests/s
	maxShare    = 0.25
	failureRate = 0.8
	project     = "demo-fast"
)

// Main is `turnout demo`.
func Main(ctx context.Context, env lifecycle.Env, _ []string) error {
	if slices.Contains(env.Args, "--help") {
		fmt.Fprintln(env.Stdout, "turnout demo: the main job, unattended, in under 90 seconds, on free ports and in a folder of its own. It takes no arguments and exits 1 if traffic does not leave the failing provider or anything does not match.")
		return nil
	}
	if len(env.Args) > 0 {
		return lifecycle.Usage(fmt.Errorf("turnout demo takes no arguments, not %q", env.Args))
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	data, err := os.MkdirTemp("", "turnout-demo-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(data)
	cfg := dev.Free(data)
	cfg.PollInterval = 5 * time.Second
	began := time.Now()
	env.Environ = nil // no real provider joins
	stack, err := dev.Start(ctx, cfg, env, cfg.Log.New(env.Stderr), dev.Options{Only: &sim.Project{
		ID: project,
		// A short memory, and enough exploration to notice a recovery within the minute.
		Routing: map[string]any{"history": map[string]any{"window_minutes": 1}, "thresholds": map[string]any{"exploration_rate": 0.05}},
	}})
	if err != nil {
		return err
	}
	defer stack.Stop()
	fmt.Fprintf(env.Stdout, "stack ready in %.1f s: %s\n", time.Since(began).Seconds(), stack.GatewayURL)
	d := &demo{stack: stack, out: env.Stdout}
	if d.db, err = chx.Open(stack.ClickHouse); err != nil {
		return err
	}
	defer d.db.Close()
	return d.play(ctx)
}

type demo struct {
	stack *dev.Stack
	db    *chx.Conn
	out   io.Writer

	mu     sync.Mutex
	served map[string]int // answers since the last tick, by provider
	failed int
}

func (d *demo) play(ctx context.Context) error {
	d.served = map[string]int{}
	driving, stop := context.WithCancel(ctx)
	defer stop()
	options := load.Options{URL: d.stack.GatewayURL, Key: d.stack.Key, Rate: rate, StreamShare: 0.5, Seed: 1, PromptTokens: 60, MaxTokens: 12, Concurrency: 200}

	fmt.Fprintf(d.out, "\n%s of requests that name their provider, so that all are known\n", surveyFor)
	survey := options
	survey.Duration = surveyFor
	for _, p := range sim.Default() {
		survey.Models = append(survey.Models, p.ID+"/"+sim.Small)
	}
	first, err := load.Run(driving, survey, d.count)
	if err != nil {
		return fmt.Errorf("driving: %w", err)
	}
	if err := d.line(ctx); err != nil {
		return err
	}

	options.Models, options.Duration = []string{sim.Small}, healthyFor+failingFor+recoverFor
	done := make(chan error, 1)
	var summary load.Summary
	go func() {
		var err error
		summary, err = load.Run(driving, options, d.count)
		done <- err
	}()
	fmt.Fprintf(d.out, "\n%d requests/s for %s, all well: share of answers (uptime %% of the last minute)\n", rate, healthyFor)
	if err := d.watch(ctx, healthyFor/2, nil); err != nil {
		return err
	}
	settled := d.lastSeq()
	if err := d.watch(ctx, healthyFor/2, nil); err != nil {
		return err
	}
	victim := d.busiest(settled)
	fmt.Fprintf(d.out, "\n%s, the busiest, now fails %.0f %% of its calls for %s\n", victim, 100*failureRate, failingFor)
	if err := d.stack.Sim.Set(victim, fmt.Appendf(nil, `{"error_rate":%g,"error_kinds":["server_error"]}`, failureRate)); err != nil {
		return err
	}
	if err := d.watch(ctx, leaveGrace, nil); err != nil {
		return err
	}
	mark := d.lastSeq()
	if err := d.watch(ctx, failingFor-leaveGrace, nil); err != nil {
		return err
	}
	left := d.share(victim, mark)
	fmt.Fprintf(d.out, "\n%s recovers (its share of calls was %.1f %% once the node had noticed)\n", victim, 100*left)
	if err := d.stack.Sim.Set(victim, []byte(`{"error_rate":0}`)); err != nil {
		return err
	}
	recovered := time.Now()
	var back time.Duration
	err = d.watch(ctx, recoverFor, func() bool {
		if d.share(victim, mark) > 0 && d.recentShare(victim) >= 0.5 {
			back = time.Since(recovered)
			return true
		}
		return false
	})
	if err != nil {
		return err
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("driving: %w", err)
	}
	if back > 0 {
		fmt.Fprintf(d.out, "\n%s has most of the traffic again after %.0f s\n", victim, back.Seconds())
	} else {
		fmt.Fprintf(d.out, "\n%s is not first again yet: the minute has not forgotten\n", victim)
	}
	summary.Requests, summary.OK = summary.Requests+first.Requests, summary.OK+first.OK
	return d.settle(ctx, summary, victim, left)
}

// settle balances ledger against rows, prints the savings and judges.
func (d *demo) settle(ctx context.Context, summary load.Summary, victim string, left float64) error {
	rows, mismatches, err := d.balance(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nbalance: %d requests, %d calls in the providers' ledger, %d rows, %d mismatches\n", summary.Requests, len(d.stack.Sim.Ledger(0)), rows, len(mismatches))
	for _, m := range mismatches[:min(5, len(mismatches))] {
		fmt.Fprintf(d.out, "  %s\n", m)
	}
	now := time.Now()
	savings, err := queries.Savings(ctx, d.db, queries.Range{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "\nsavings:")
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	analytics.SavingsTable(w, savings)
	if err := w.Flush(); err != nil {
		return err
	}
	retries, err := queries.Retries(ctx, d.db, queries.Range{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
	if err != nil {
		return err
	}
	var failedFirst, recovered uint64
	for _, r := range retries {
		failedFirst, recovered = failedFirst+r.Requests, recovered+r.Recovered
	}
	fmt.Fprintf(d.out, "\nretries: %d requests failed at their first provider, %d of them were served by another; clients saw %d errors\n", failedFirst, recovered, summary.Requests-summary.OK-summary.Errors[load.CodeCanceled])
	switch {
	case len(mismatches) > 0:
		return fmt.Errorf("%d calls and rows do not match", len(mismatches))
	case left > maxShare:
		return fmt.Errorf("traffic did not leave %s: it still had %.1f %% of the calls", victim, 100*left)
	case len(savings) == 0:
		return errors.New("no savings were recorded")
	}
	return nil
}

func (d *demo) count(r load.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.OK() {
		d.served[r.Provider]++
	} else {
		d.failed++
	}
}

// watch prints a line a tick until the time is over or enough says so.
func (d *demo) watch(ctx context.Context, length time.Duration, enough func() bool) error {
	deadline := time.Now().Add(length)
	for time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the demo ran out of time: %w", ctx.Err())
		case err := <-d.stack.Failed():
			return err
		case <-time.After(min(tick, time.Until(deadline))):
		}
		if err := d.line(ctx); err != nil {
			return err
		}
		if enough != nil && enough() {
			return nil
		}
	}
	return nil
}

func (d *demo) line(ctx context.Context) error {
	d.mu.Lock()
	served, failed := d.served, d.failed
	d.served, d.failed = map[string]int{}, 0
	d.mu.Unlock()
	total := 0
	for _, n := range served {
		total += n
	}
	now := time.Now()
	health, err := queries.HealthOverTime(ctx, d.db, queries.Range{From: now.Add(-time.Minute), To: now}, time.Hour)
	if err != nil {
		return err
	}
	for _, p := range sim.Default() {
		uptime := "  -  "
		var counted, errs int64
		for _, h := range health {
			if h.Provider == p.ID {
				counted, errs = counted+h.Counted, errs+int64(h.Errors)
			}
		}
		if counted > 0 {
			uptime = fmt.Sprintf("%5.1f", 100-100*float64(errs)/float64(counted))
		}
		share := 0.0
		if total > 0 {
			share = 100 * float64(served[p.ID]) / float64(total)
		}
		fmt.Fprintf(d.out, "  %s %3.0f %% (%s)", p.ID, share, uptime)
	}
	fmt.Fprintf(d.out, "  errors seen by clients %d\n", failed)
	return nil
}

// busiest is the provider with most calls after a ledger sequence number.
func (d *demo) busiest(after int64) string {
	calls := map[string]int{}
	best := sim.Default()[0].ID
	for _, e := range d.stack.Sim.Ledger(after) {
		if calls[e.Provider]++; calls[e.Provider] > calls[best] {
			best = e.Provider
		}
	}
	return best
}

func (d *demo) lastSeq() int64 {
	entries := d.stack.Sim.Ledger(0)
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Seq
}

// share is a provider's share of the calls after a ledger sequence number.
func (d *demo) share(provider string, after int64) float64 {
	return shareOf(provider, d.stack.Sim.Ledger(after))
}

// recentShare is its share of the last two seconds' worth of calls.
func (d *demo) recentShare(provider string) float64 {
	entries := d.stack.Sim.Ledger(0)
	return shareOf(provider, entries[max(0, len(entries)-2*rate):])
}

func shareOf(provider string, entries []sim.Entry) float64 {
	n := 0
	for _, e := range entries {
		if e.Provider == provider {
			n++
		}
	}
	return float64(n) / float64(max(1, len(entries)))
}

// balance waits for the last rows and compares them with the ledger.
func (d *demo) balance(ctx context.Context) (int, []load.Mismatch, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		rows, err := d.rows(ctx)
		if err != nil {
			return 0, nil, err
		}
		mismatches := load.Balance(d.stack.Sim.Ledger(0), rows)
		if len(mismatches) == 0 || time.Now().After(deadline) {
			return len(rows), mismatches, nil
		}
		select {
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("waiting for the last rows: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (d *demo) rows(ctx context.Context) ([]load.Row, error) {
	found, err := d.db.Query(ctx, "SELECT span_id, provider, outcome, status_code, output_tokens FROM attempts_unique")
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	defer found.Close()
	var rows []load.Row
	for found.Next() {
		var r load.Row
		var outcome string
		var status int32
		if err := found.Scan(&r.SpanID, &r.Provider, &outcome, &status, &r.OutputTokens); err != nil {
			return nil, fmt.Errorf("reading rows: %w", err)
		}
		r.Outcome, r.StatusCode = attempt.Outcome(outcome), int(status)
		rows = append(rows, r)
	}
	return rows, found.Err()
}
