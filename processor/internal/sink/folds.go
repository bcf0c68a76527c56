package sink

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/internal/fold"
	"turnout/processor/internal/partition"
	"turnout/schemas/snapshot"
)

// Hash is what is compared of the record at the stored offset: whether this is the log that was read.
func Hash(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return h.Sum64()
}

// keptCalls is for how many batches a span that nobody touches stays in memory.
const keptCalls = 120

// storeFolds counts the records and stores the buckets that changed with the progress.
func (s *Sink) storeFolds(ctx context.Context, chunks []*Chunk) error {
	now := s.now()
	h := partition.Horizon{Now: now, OldestSlot: now.Add(-s.cfg.Slots), OldestUsage: now.Add(-s.cfg.Usage)}
	if err := s.loadSpans(ctx, chunks, h); err != nil {
		return err
	}
	stored, err := s.lookUp(ctx, chunks)
	if err != nil {
		return err
	}
	changed := make([][]partition.Changed, len(chunks))
	for i, c := range chunks {
		var stats partition.Stats
		changed[i], stats = c.State.Apply(c.Records, stored[c], h)
		s.metrics.applied(stats)
		if stats.Dropped > 0 {
			s.log.Warn("events came after their slot or hour was dropped; only their raw rows are kept", "partition", c.Partition, "events", stats.Dropped)
		}
		if stats.Early > 0 {
			s.log.Warn("events end in the future: a gateway's clock is ahead of this one's; snapshots leave them out until then", "partition", c.Partition, "events", stats.Early, "nodes", early(c.Records, now))
		}
	}
	err = s.retry(ctx, "folds", func(ctx context.Context) error { return s.insertFolds(ctx, chunks, changed) })
	if err != nil {
		return err
	}
	for _, c := range chunks {
		c.State.Forget(keptCalls)
	}
	return nil
}

// early names the nodes whose events lie ahead of now.
func early(records []partition.Record, now time.Time) (nodes []string) {
	for _, r := range records {
		if at := fold.EventTime(r.Event); at.After(now.Add(partition.EarlyAfter)) && !slices.Contains(nodes, r.Event.NodeID) {
			nodes = append(nodes, r.Event.NodeID)
		}
	}
	return nodes
}

// loadSpans reads the spans that the states of the chunks do not hold, in one query.
func (s *Sink) loadSpans(ctx context.Context, chunks []*Chunk, h partition.Horizon) error {
	type wanted struct {
		partition int32
		at        partition.Span
	}
	missing := map[wanted][]*partition.State{}
	var conditions []string
	for _, c := range chunks {
		var slots, hours []string
		for _, at := range c.State.Missing(c.Records, h) {
			w := wanted{int32(c.Partition), at}
			missing[w] = append(missing[w], c.State)
			if at.Kind == partition.Slot {
				slots = append(slots, fmt.Sprint(at.At))
			} else {
				hours = append(hours, fmt.Sprint(at.At))
			}
		}
		for kind, list := range map[string][]string{"slot": slots, "usage": hours} {
			if len(list) > 0 {
				conditions = append(conditions, fmt.Sprintf("(kind = '%s' AND kafka_partition = %d AND at IN (%s))", kind, c.Partition, strings.Join(list, ",")))
			}
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	slices.Sort(conditions)
	loaded := map[wanted][]partition.Changed{}
	err := s.retry(ctx, "reading folds", func(ctx context.Context) error {
		clear(loaded)
		ctx = chx.WithSettings(ctx, chx.Settings{"max_query_size": 16 << 20})
		rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT kafka_partition, toString(kind), toUnixTimestamp(at), provider, model, region, class, organization_id, project_id, kafka_offset, "+
			"requests, successes, cache_write_tokens, cost_nano_usd, %s FROM folds FINAL WHERE generation = %d AND (%s)", snapshot.SumColumns, s.cfg.Generation, strings.Join(conditions, " OR ")))
		if err != nil {
			return fmt.Errorf("reading buckets: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			p, b, err := scanBucket(rows)
			if err != nil {
				return fmt.Errorf("reading buckets: %w", err)
			}
			loaded[wanted{p, b.Span}] = append(loaded[wanted{p, b.Span}], b)
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for w, states := range missing {
		for _, state := range states {
			state.Load(w.at, loaded[w])
		}
	}
	return nil
}

func scanBucket(rows chx.Rows) (int32, partition.Changed, error) {
	var (
		p         int32
		kind      string
		at        uint32
		offset    uint64
		b         partition.Changed
		sums      snapshot.Sums
		histogram []int64
	)
	u := &b.Usage
	targets := append([]any{&p, &kind, &at, &b.Provider, &b.Model, &b.Region, &b.Class, &b.Organization, &b.Project, &offset,
		&u.Requests, &u.Successes, &u.CacheWrite, &u.CostNanoUSD}, sums.Targets(&histogram)...)
	if err := rows.Scan(targets...); err != nil {
		return 0, b, err
	}
	if err := sums.SetHistogram(histogram); err != nil {
		return 0, b, err
	}
	b.At, b.Offset = int64(at), int64(offset)
	if kind == "slot" {
		b.Kind, b.Slot = partition.Slot, sums
		return p, b, nil
	}
	b.Kind = partition.Usage
	u.Attempts, u.InputTokens, u.CachedTokens, u.OutputTokens = sums.Attempts, sums.InputTokens, sums.CachedTokens, sums.OutputTokens
	return p, b, nil
}

// lookUp finds the lowest stored offset of the records that are marked as replayed, in one query.
func (s *Sink) lookUp(ctx context.Context, chunks []*Chunk) (map[*Chunk]map[string]int64, error) {
	var ids, projects []string
	var first, last time.Time
	for _, c := range chunks {
		for _, r := range c.State.Suspects(c.Records) {
			e := r.Event
			ids = append(ids, e.EventID)
			if !slices.Contains(projects, e.ProjectID) {
				projects = append(projects, e.ProjectID)
			}
			if first.IsZero() || e.StartedAt.Before(first) {
				first = e.StartedAt
			}
			if e.StartedAt.After(last) {
				last = e.StartedAt
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	s.metrics.lookUps.Add(float64(len(ids)))
	found := map[int32]map[string]int64{}
	err := s.retry(ctx, "looking up duplicates", func(ctx context.Context) error {
		clear(found)
		ctx = chx.WithSettings(ctx, chx.Settings{"max_query_size": 16 << 20})
		rows, err := s.conn.Query(ctx, "SELECT kafka_partition, event_id, min(kafka_offset) FROM attempts WHERE project_id IN (?) AND started_at >= fromUnixTimestamp64Micro(?) AND started_at <= fromUnixTimestamp64Micro(?) AND event_id IN (?) GROUP BY kafka_partition, event_id",
			projects, first.UnixMicro(), last.UnixMicro(), ids)
		if err != nil {
			return fmt.Errorf("looking up %d events: %w", len(ids), err)
		}
		defer rows.Close()
		for rows.Next() {
			var p int32
			var id string
			var offset int64
			if err := rows.Scan(&p, &id, &offset); err != nil {
				return fmt.Errorf("looking up events: %w", err)
			}
			if found[p] == nil {
				found[p] = map[string]int64{}
			}
			found[p][id] = offset
		}
		return rows.Err()
	})
	out := map[*Chunk]map[string]int64{}
	for _, c := range chunks {
		out[c] = found[int32(c.Partition)]
	}
	return out, err
}

const insertFolds = "INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, region, class, organization_id, project_id, kafka_offset, value_hash, " +
	"requests, successes, cache_write_tokens, cost_nano_usd, " + snapshot.SumColumns + ")"

// insertFolds writes the buckets and the progress of all chunks as one block into one partition of
// the table: they are there together or not at all.
func (s *Sink) insertFolds(ctx context.Context, chunks []*Chunk, changed [][]partition.Changed) error {
	defer s.metrics.timed("folds", time.Now())
	batch, err := s.conn.PrepareBatch(chx.SyncInsert(ctx), insertFolds)
	if err != nil {
		return fmt.Errorf("beginning an insert of buckets: %w", err)
	}
	defer batch.Close()
	appendRow := func(kind string, p int, k partition.Key, offset int64, hash uint64, b *partition.Bucket) error {
		sums := b.Slot
		if k.Kind == partition.Usage {
			sums.Attempts, sums.InputTokens, sums.CachedTokens, sums.OutputTokens = b.Usage.Attempts, b.Usage.InputTokens, b.Usage.CachedTokens, b.Usage.OutputTokens
		}
		values := append([]any{s.cfg.Generation, kind, time.Unix(k.At, 0).UTC(), int32(p), k.Provider, k.Model, k.Region, k.Class, k.Organization, k.Project, uint64(offset), hash,
			b.Usage.Requests, b.Usage.Successes, b.Usage.CacheWrite, b.Usage.CostNanoUSD}, sums.Values()...)
		return batch.Append(values...)
	}
	n := 0
	for i, c := range chunks {
		for j := range changed[i] {
			b := &changed[i][j]
			kind := "slot"
			if b.Kind == partition.Usage {
				kind = "usage"
			}
			if err := appendRow(kind, c.Partition, b.Key, b.Offset, 0, &b.Bucket); err != nil {
				return fmt.Errorf("preparing an insert of buckets: %w", err)
			}
			n++
		}
		if err := appendRow("progress", c.Partition, partition.Key{}, c.Last, c.Hash, &partition.Bucket{}); err != nil {
			return fmt.Errorf("preparing an insert of progress: %w", err)
		}
		n++
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("inserting %d buckets: %w", n, err)
	}
	s.metrics.buckets.Add(float64(n))
	return nil
}

// Progress is how far a partition has been dealt with.
type Progress struct {
	Offset int64 // of the last record
	Hash   uint64
}

// ReadProgress returns what is stored of a partition. ok is false if nothing is.
func ReadProgress(ctx context.Context, conn *chx.Conn, generation uint32, p int) (progress Progress, ok bool, err error) {
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT kafka_offset, value_hash FROM folds FINAL WHERE generation = %d AND kind = 'progress' AND kafka_partition = %d", generation, p))
	if err != nil {
		return Progress{}, false, fmt.Errorf("reading the progress of partition %d: %w", p, err)
	}
	defer rows.Close()
	for rows.Next() {
		var offset uint64
		if err := rows.Scan(&offset, &progress.Hash); err != nil {
			return Progress{}, false, fmt.Errorf("reading the progress of partition %d: %w", p, err)
		}
		progress.Offset, ok = int64(offset), true
	}
	return progress, ok, rows.Err()
}

// LiveGeneration is the generation of folds that counts.
func LiveGeneration(ctx context.Context, conn *chx.Conn) (uint32, error) {
	var g uint32
	if err := conn.QueryRow(ctx, "SELECT max(generation) FROM fold_generations").Scan(&g); err != nil {
		return 0, fmt.Errorf("reading the live generation: %w", err)
	}
	return g, nil
}
