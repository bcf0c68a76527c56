// Package publish makes snapshots of the folds, and what else one process does for all: it drops old
// snapshots and rolls usage up by day. Only the leader publishes; two that both take themselves for
// it for a moment do no harm, as heads are ordered by what they have seen.
package publish

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"turnout/internal/chx"
	"turnout/internal/fold"
	"turnout/internal/telemetry"
	"turnout/schemas/snapshot"
)

// Config says what is published and how often.
type Config struct {
	Interval  time.Duration
	Snapshots time.Duration // how long they are kept
	Usage     time.Duration // how long hours of usage are kept
	// At is called at named points, for tests that stop the process there; nil in earnest.
	At func(point string)
}

// Publisher publishes. Run may be called by one goroutine.
type Publisher struct {
	cfg      Config
	conn     *chx.Conn
	leader   func() bool
	changed  <-chan struct{}
	profiles func() []snapshot.Profile
	log      *slog.Logger
	metrics  *Metrics
}

// Metrics are the publisher's figures.
type Metrics struct {
	published telemetry.Counter
	failed    telemetry.Counter
	rows      telemetry.Gauge
	seconds   telemetry.Histogram
}

// NewMetrics registers them.
func NewMetrics(m *telemetry.Metrics) *Metrics {
	return &Metrics{
		published: m.Counter("turnout_processor_snapshots_total", "Snapshots published by this process."),
		failed:    m.Counter("turnout_processor_snapshot_failures_total", "Snapshots that could not be published."),
		rows:      m.Gauge("turnout_processor_snapshot_rows", "Rows of the last snapshot published by this process."),
		seconds:   m.Histogram("turnout_processor_snapshot_seconds", "Time to make and publish a snapshot.", []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10}),
	}
}

// New returns a publisher. leader is asked before each snapshot; changed receives when its answer may
// have changed; profiles are those to publish, the default one first.
func New(cfg Config, conn *chx.Conn, leader func() bool, changed <-chan struct{}, profiles func() []snapshot.Profile, log *slog.Logger, m *Metrics) *Publisher {
	return &Publisher{cfg: cfg, conn: conn, leader: leader, changed: changed, profiles: profiles, log: log, metrics: m}
}

// Run publishes at once when it becomes the leader and then at every interval, until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	ticker := time.NewTicker(p.cfg.Interval)
	defer ticker.Stop()
	leading, complained := false, ""
	var kept upkeep
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			leading = p.leader()
		case <-p.changed:
			was := leading
			if leading = p.leader(); was || !leading {
				continue
			}
			ticker.Reset(p.cfg.Interval)
		}
		if !leading {
			continue
		}
		err := p.turn(ctx, &kept)
		switch {
		case err == nil:
			if complained != "" {
				p.log.Info("the publisher works again")
			}
			complained = ""
		case ctx.Err() == nil:
			if complained != err.Error() {
				complained = err.Error()
				p.log.Warn("the publisher failed, trying on", "error", err)
			}
		}
	}
}

func (p *Publisher) turn(ctx context.Context, kept *upkeep) error {
	ctx, cancel := context.WithTimeout(ctx, max(p.cfg.Interval, 10*time.Second))
	defer cancel()
	started := time.Now()
	head, err := p.Publish(ctx)
	if err != nil {
		p.metrics.failed.Inc()
		return fmt.Errorf("no snapshot was published: %w", err)
	}
	p.metrics.published.Inc()
	p.metrics.rows.Set(float64(head.Rows))
	p.metrics.seconds.Observe(time.Since(started).Seconds())
	return kept.turn(ctx, p.conn, head.AsOf, p.cfg)
}

// Publish makes one snapshot of the live folds as of now, by ClickHouse's clock, and makes it visible.
func (p *Publisher) Publish(ctx context.Context) (snapshot.Head, error) {
	set, err := Compute(ctx, p.conn, p.profiles())
	if err != nil {
		return snapshot.Head{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return snapshot.Head{}, fmt.Errorf("naming a snapshot: %w", err)
	}
	set.Head.ID = id.String()
	return set.Head, p.write(ctx, set)
}

// Compute makes a snapshot, without an id, of the live folds.
func Compute(ctx context.Context, conn *chx.Conn, profiles []snapshot.Profile) (*snapshot.Set, error) {
	var asOf time.Time
	var generation uint32
	if err := conn.QueryRow(ctx, "SELECT now64(3, 'UTC'), (SELECT max(generation) FROM fold_generations)").Scan(&asOf, &generation); err != nil {
		return nil, fmt.Errorf("reading the live generation: %w", err)
	}
	return ComputeAt(ctx, conn, generation, asOf.UTC(), profiles)
}

// ComputeAt makes a snapshot of one generation as of a time. Progress and slots come from one query,
// so the watermarks say exactly which events are in it.
func ComputeAt(ctx context.Context, conn *chx.Conn, generation uint32, asOf time.Time, profiles []snapshot.Profile) (*snapshot.Set, error) {
	edges := Edges(profiles)
	// Age in milliseconds, at least 0; slots that end more than a minute ahead are left out.
	age := fmt.Sprintf("greatest(%d - 1000 * (toInt64(toUnixTimestamp(at)) + %d), 0)", asOf.UnixMilli(), fold.SlotSeconds)
	oldest := asOf.Unix() - edges[len(edges)-1] - 2*fold.SlotSeconds
	newest := asOf.Unix() + 60 - fold.SlotSeconds
	query := fmt.Sprintf(`SELECT kind = 'progress' AS is_progress, if(is_progress, kafka_partition, -1) AS p,
		if(is_progress, 0, toInt64(arrayFirst(e -> %s <= 1000 * e, %s))) AS edge,
		provider, model, region, class, organization_id, toInt64(max(kafka_offset)) AS watermark, %s
		FROM folds FINAL
		WHERE generation = %d AND (kind = 'progress' OR kind = 'slot' AND at >= toDateTime(%d, 'UTC') AND at <= toDateTime(%d, 'UTC'))
		GROUP BY is_progress, p, edge, provider, model, region, class, organization_id
		HAVING is_progress OR edge > 0`, age, literal(edges), sums, generation, max(oldest, 0), newest)
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading folds: %w", err)
	}
	defer rows.Close()

	set := &snapshot.Set{Head: snapshot.Head{Generation: int64(generation), AsOf: asOf, Watermarks: map[int]int64{}, Profiles: profiles}, Rows: map[string][]snapshot.Row{}}
	index := make([]map[snapshot.Key]int, len(profiles))
	for i := range profiles {
		index[i] = map[snapshot.Key]int{}
	}
	for rows.Next() {
		var (
			progress        bool
			partition       int32
			edge, watermark int64
			key             snapshot.Key
			counted         snapshot.Sums
			histogram       []int64
		)
		targets := append([]any{&progress, &partition, &edge, &key.Provider, &key.Model, &key.Region, &key.Class, &key.Organization, &watermark}, counted.Targets(&histogram)...)
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("reading folds: %w", err)
		}
		if progress {
			set.Head.Watermarks[int(partition)] = watermark
			continue
		}
		if err := counted.SetHistogram(histogram); err != nil {
			return nil, fmt.Errorf("reading folds: %w", err)
		}
		for i, profile := range profiles {
			tier, ok := profile.Tier(time.Duration(edge) * time.Second)
			if !ok {
				continue
			}
			at, ok := index[i][key]
			if !ok {
				at = len(set.Rows[profile.ID])
				index[i][key] = at
				set.Rows[profile.ID] = append(set.Rows[profile.ID], snapshot.Row{Key: key})
			}
			set.Rows[profile.ID][at].Tier[tier].Add(counted)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading folds: %w", err)
	}
	for _, list := range set.Rows {
		slices.SortFunc(list, func(a, b snapshot.Row) int { return snapshot.CompareKeys(a.Key, b.Key) })
	}
	stored := snapshot.Flatten(set.Rows)
	set.Head.Rows, set.Head.Checksum = int64(len(stored)), snapshot.Checksum(stored)
	return set, nil
}

// Edges are the ages, in seconds and ascending, at which some profile's tier ends: between two of them
// all profiles have one tier.
func Edges(profiles []snapshot.Profile) []int64 {
	var out []int64
	for _, p := range profiles {
		window := int64(p.WindowMinutes) * 60
		for _, minutes := range []int{p.Tier1Minutes, p.Tier2Minutes, p.WindowMinutes} {
			// A tier may end at age 0, and ends with the window; edge 0 means "none" in the query.
			out = append(out, min(max(int64(minutes)*60, 1), window))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *Publisher) write(ctx context.Context, set *snapshot.Set) error {
	head := set.Head
	if stored := snapshot.Flatten(set.Rows); len(stored) > 0 {
		batch, err := p.conn.PrepareBatch(chx.SyncInsert(ctx), snapshot.InsertRows)
		if err != nil {
			return fmt.Errorf("publishing rows: %w", err)
		}
		defer batch.Close()
		for i := range stored {
			if err := batch.Append(stored[i].Values(head.ID, head.AsOf)...); err != nil {
				return fmt.Errorf("publishing rows: %w", err)
			}
		}
		if err := batch.Send(); err != nil {
			return fmt.Errorf("publishing rows: %w", err)
		}
	}
	p.at("snapshot rows written")
	batch, err := p.conn.PrepareBatch(chx.SyncInsert(ctx), snapshot.InsertHead)
	if err != nil {
		return fmt.Errorf("publishing the head: %w", err)
	}
	defer batch.Close()
	row := head.Stored()
	if err := batch.Append(row.Values()...); err != nil {
		return fmt.Errorf("publishing the head: %w", err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("publishing the head: %w", err)
	}
	p.at("head written")
	return nil
}

func (p *Publisher) at(point string) {
	if p.cfg.At != nil {
		p.cfg.At(point)
	}
}
