package chaos

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"turnout/deploy/load"
	"turnout/internal/fold"
	"turnout/processor/verify"
	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
)

// verdict is what a round left behind.
type verdict struct {
	Lost    int // ledger entries without a row
	Double  int // spans with two rows or two calls
	Foreign int // rows that claim a call which was not made
	Buckets int // slots and hours that are not a recount of their rows
	Shots   int // snapshots that are not a recompute
	First   []string

	Entries, Rows int
	Took          time.Duration
}

func (v verdict) clean() bool { return v.Lost+v.Double+v.Foreign+v.Buckets+v.Shots == 0 }

// judge waits until all is drained and then looks at everything there is, from the beginning.
func (r *rig) judge() verdict {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	r.ready()
	r.eventually(90*time.Second, "spools and topic are drained", func() error {
		for _, g := range r.gateways {
			if depth, open := g.metric("turnout_gateway_spool_depth"), g.metric("turnout_gateway_spool_open"); depth != 0 || open != 0 {
				return fmt.Errorf("%s has %v events to send and %v calls under way", g.name, depth, open)
			}
		}
		behind, err := r.behind(ctx)
		if err == nil && behind != 0 {
			err = fmt.Errorf("%d records are not folded", behind)
		}
		return err
	})
	// Directories of the dead are adopted within seconds; their events may still come.
	var v verdict
	_ = until(40*time.Second, func() (err error) {
		if v, err = r.look(ctx); err != nil {
			return err
		}
		if !v.clean() {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
	v.Took = time.Since(began)
	return v
}

func (r *rig) look(ctx context.Context) (v verdict, err error) {
	note := func(s string) {
		if len(v.First) < 5 {
			v.First = append(v.First, s)
		}
	}
	ledger := r.sim.Ledger(0)
	rows, events, err := r.rows(ctx)
	if err != nil {
		return v, err
	}
	v.Entries, v.Rows = len(ledger), len(rows)
	for _, m := range load.Balance(ledger, rows) {
		note(m.String())
		switch {
		case strings.Contains(m.What, "has no row"):
			v.Lost++
		case strings.HasSuffix(m.What, " rows") || strings.Contains(m.What, "calls with one span"):
			v.Double++
		default:
			v.Foreign++
		}
	}
	report, err := verify.Folds(ctx, r.db, 1, time.Now().Add(-24*time.Hour), time.Now().Add(-24*time.Hour))
	if err != nil {
		return v, err
	}
	v.Buckets = len(report.Differences)
	for _, d := range report.Differences {
		note(d.String())
	}
	if len(rows) > 0 && (report.Slots == 0 || report.Hours == 0) {
		return v, fmt.Errorf("nothing was compared: %+v", report)
	}
	wrong, err := r.snapshot(ctx, events)
	if err != nil {
		return v, err
	}
	if wrong != "" {
		v.Shots++
		note(wrong)
	}
	return v, nil
}

// placed is an event and where it stands in the log.
type placed struct {
	attempt.Event
	partition int
	offset    int64
}

// rows reads every attempt as analysts see it, and what of it counts.
func (r *rig) rows(ctx context.Context) ([]load.Row, []placed, error) {
	found, err := r.db.Query(ctx, `SELECT span_id, kafka_partition, kafka_offset, provider, model, region, endpoint, organization_id, custom_provider, credential_source, outcome, status_code,
		geo_blocked, stream, ttft_us, duration_us, input_tokens, cached_input_tokens, output_tokens, started_at, finished_at FROM attempts_unique`)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	var rows []load.Row
	var events []placed
	for found.Next() {
		var e placed
		var p, status int32
		var credential, outcome string
		if err := found.Scan(&e.SpanID, &p, &e.offset, &e.Provider, &e.Model, &e.Region, &e.Endpoint, &e.OrganizationID, &e.CustomProvider, &credential, &outcome, &status,
			&e.GeoBlocked, &e.Stream, &e.TTFTUS, &e.DurationUS, &e.InputTokens, &e.CachedInputTokens, &e.OutputTokens, &e.StartedAt, &e.FinishedAt); err != nil {
			return nil, nil, err
		}
		if e.FinishedAt.Unix() == 0 {
			e.FinishedAt = time.Time{}
		}
		e.partition, e.StatusCode, e.Outcome, e.CredentialSource = int(p), int(status), attempt.Outcome(outcome), credential
		events = append(events, e)
		rows = append(rows, load.Row{SpanID: e.SpanID, Provider: e.Provider, Outcome: e.Outcome, StatusCode: e.StatusCode, OutputTokens: e.OutputTokens})
	}
	return rows, events, found.Err()
}

// snapshot recomputes the newest snapshot from the events below its watermarks and says what differs.
func (r *rig) snapshot(ctx context.Context, events []placed) (string, error) {
	var stored snapshot.StoredHead
	if err := r.db.QueryRow(ctx, snapshot.SelectHead).Scan(stored.Targets()...); err != nil {
		return "", fmt.Errorf("the newest head: %w", err)
	}
	head, err := stored.Head()
	if err != nil {
		return "", err
	}
	found, err := r.db.Query(ctx, snapshot.SelectRows, head.ID)
	if err != nil {
		return "", err
	}
	defer found.Close()
	var all []snapshot.StoredRow
	for found.Next() {
		var row snapshot.StoredRow
		if err := row.Scan(found.Scan); err != nil {
			return "", err
		}
		all = append(all, row)
	}
	if err := found.Err(); err != nil {
		return "", err
	}
	set, err := snapshot.Assemble(head, all)
	if err != nil {
		return err.Error(), nil // a head without its rows is a finding
	}
	for _, p := range head.Profiles {
		want := recompute(events, head, p)
		if have := set.Rows[p.ID]; len(have) != len(want) || len(want) > 0 && !reflect.DeepEqual(have, want) {
			return fmt.Sprintf("snapshot %s of %s, profile %q: %d rows are not the %d that its events make", head.ID, head.AsOf.Format(time.RFC3339), p.ID, len(have), len(want)), nil
		}
	}
	return "", nil
}

func recompute(events []placed, head snapshot.Head, p snapshot.Profile) []snapshot.Row {
	rows := map[snapshot.Key]*snapshot.Row{}
	for i := range events {
		e := &events[i]
		watermark, ok := head.Watermarks[e.partition]
		if !ok || e.offset > watermark {
			continue
		}
		key, sums, ok := fold.Classify(&e.Event)
		if !ok {
			continue
		}
		age, ok := fold.Age(fold.SlotOf(fold.EventTime(&e.Event)), head.AsOf)
		if !ok {
			continue
		}
		tier, ok := p.Tier(age)
		if !ok {
			continue
		}
		if rows[key] == nil {
			rows[key] = &snapshot.Row{Key: key}
		}
		rows[key].Tier[tier].Add(sums)
	}
	out := make([]snapshot.Row, 0, len(rows))
	for _, row := range rows {
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b snapshot.Row) int { return snapshot.CompareKeys(a.Key, b.Key) })
	return out
}
