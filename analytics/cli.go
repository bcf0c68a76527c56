package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"turnout/analytics/queries"
	"turnout/internal/chx"
)

var questions = map[string]func(context.Context, *chx.Conn, question, time.Time, io.Writer) error{
	"savings": func(ctx context.Context, db *chx.Conn, q question, now time.Time, out io.Writer) error {
		rows, err := queries.Savings(ctx, db, q.span(now))
		return show(out, q.JSON, rows, err, SavingsTable)
	},
	"cost": func(ctx context.Context, db *chx.Conn, q question, now time.Time, out io.Writer) error {
		rows, err := queries.Costs(ctx, db, q.span(now))
		return show(out, q.JSON, rows, err, costTable)
	},
	"health": func(ctx context.Context, db *chx.Conn, q question, now time.Time, out io.Writer) error {
		rows, err := queries.HealthOverTime(ctx, db, q.span(now), q.Step)
		return show(out, q.JSON, rows, err, healthTable)
	},
	"retries": func(ctx context.Context, db *chx.Conn, q question, now time.Time, out io.Writer) error {
		rows, err := queries.Retries(ctx, db, q.span(now))
		return show(out, q.JSON, rows, err, retriesTable)
	},
	"cache": func(ctx context.Context, db *chx.Conn, q question, now time.Time, out io.Writer) error {
		rows, err := queries.CacheHits(ctx, db, q.span(now))
		return show(out, q.JSON, rows, err, cacheTable)
	},
}

func (q question) span(now time.Time) queries.Range {
	return queries.Range{From: now.Add(-q.Since), To: now.Add(time.Second), Project: q.Project}
}

// show prints rows as JSON lines or, aligned, as a table.
func show[T any](out io.Writer, asJSON bool, rows []T, err error, table func(io.Writer, []T)) error {
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(out)
		for _, row := range rows {
			if err := enc.Encode(row); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
		}
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintln(out, "nothing in this time (rows arrive a second or two after their requests)")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	table(w, rows)
	return w.Flush()
}

// SavingsTable prints savings, tab-separated, for a tabwriter.
func SavingsTable(w io.Writer, rows []queries.Saving) {
	fmt.Fprintln(w, "day\tproject\tagainst the dearest\trequests\tcost USD\tbaseline USD\tsaved USD\tsaved\texplored\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%.1f %%\t%d\t\n", r.Day.Format(time.DateOnly), r.ProjectID, r.BaselineKind, r.Requests, usd(r.CostNanoUSD), usd(r.BaselineNanoUSD), usd(r.SavingNanoUSD), 100*r.SavingShare, r.ExploredRequests)
	}
}

func costTable(w io.Writer, rows []queries.Cost) {
	fmt.Fprintln(w, "model\tprovider\tattempts\trequests\tinput\tcached\toutput\tcost USD\tof it retried USD\tunmetered\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t\n", r.Model, r.Provider, r.Attempts, r.Requests, r.InputTokens, r.CachedInputTokens, r.OutputTokens, usd(r.CostNanoUSD), usd(r.RetriedNanoUSD), r.UnmeteredAttempts)
	}
}

func healthTable(w io.Writer, rows []queries.Health) {
	fmt.Fprintln(w, "at\tprovider\tmodel\tattempts\terrors\tclient errors\tuptime %\tavailability %\tTTFT p50 ms\tp95 ms\ttokens/s\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", r.At.UTC().Format(time.DateTime), r.Provider, r.Model, r.Attempts, r.Errors, r.ClientErrors, known(r.Uptime), known(r.Availability), known(r.TTFTP50MS), known(r.TTFTP95MS), known(r.Throughput))
	}
}

func retriesTable(w io.Writer, rows []queries.Retry) {
	fmt.Fprintln(w, "first provider\tfailed with\trequests\trecovered\telsewhere\tattempts\twasted USD\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t\n", r.Provider, r.ErrorType, r.Requests, r.Recovered, r.RecoveredElsewhere, r.Attempts, usd(r.WastedNanoUSD))
	}
}

func cacheTable(w io.Writer, rows []queries.Cache) {
	fmt.Fprintln(w, "project\tmodel\tprovider\tattempts\tinput\tcached\thit rate\tcached USD\tin sessions\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%.1f %%\t%s\t%d\t\n", r.ProjectID, r.Model, r.Provider, r.Attempts, r.InputTokens, r.CachedInputTokens, 100*r.HitRate, usd(r.CostCachedNanoUSD), r.SessionAttempts)
	}
}

// usd shows nano-USD as USD with six decimals.
func usd(nano int64) string {
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	micro := (nano + 500) / 1000
	return fmt.Sprintf("%s%d.%06d", sign, micro/1e6, micro%1e6)
}

func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *v)
}
