package sink

import (
	"context"
	"fmt"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/schemas/snapshot"
)

// Seeding says which raw rows a new generation begins with on one partition: what the topic no longer
// holds, or is not to be read again.
type Seeding struct {
	Generation uint32
	Partition  int
	Below      int64 // rows of this log below this offset
	// Anew is when the topic was made anew, zero if never: rows stored before belong to the old log,
	// and all of them count.
	Anew                    time.Time
	OldestSlot, OldestUsage time.Time
}

// OldLog is the partition under which folds keep what a partition's old log made, once the topic has
// been made anew: offsets begin again there, and a bucket's offset would say nothing.
func OldLog(p int) int { return -1 - p }

// Seed fills a new generation with what the raw rows make. It is folding, said in SQL.
func Seed(ctx context.Context, conn *chx.Conn, s Seeding) error {
	this := fmt.Sprintf("kafka_partition = %d AND kafka_offset < %d", s.Partition, s.Below)
	if !s.Anew.IsZero() {
		anew := fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", s.Anew.UnixMilli())
		old := fmt.Sprintf("kafka_partition = %d AND ingested_at < %s", s.Partition, anew)
		if err := seed(ctx, conn, s, old, fmt.Sprint(OldLog(s.Partition)), "0"); err != nil {
			return err
		}
		this += " AND ingested_at >= " + anew
	}
	if s.Below == 0 {
		return nil
	}
	return seed(ctx, conn, s, this, fmt.Sprint(s.Partition), "max(attempts.kafka_offset)")
}

func seed(ctx context.Context, conn *chx.Conn, s Seeding, rows, as, version string) error {
	const (
		end     = "if(finished_at > toDateTime64(0, 6, 'UTC'), finished_at, started_at)"
		failed  = "outcome IN ('gateway_error', 'upstream_error', 'network_error', 'upstream_timeout')"
		first   = "(stream AND ifNull(ttft_us, -1) >= 0)"
		periods = "intDiv(assumeNotNull(ttft_us), 16000)"
	)
	bucket := fmt.Sprintf("if(%s = 0, 0, least(toInt32(floor(log2(%s))) + 1, %d))", periods, periods, snapshot.TTFTBuckets-1)
	slots := fmt.Sprintf(`INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, region, class, organization_id, kafka_offset, %s)
		SELECT %d, 'slot', toStartOfInterval(toDateTime(%s, 'UTC'), INTERVAL 10 SECOND, 'UTC') AS slot, %s, provider, model, region,
			if(endpoint = 'embeddings', 'embedding', 'text') AS kind_of_endpoint, if(custom_provider, attempts.organization_id, '') AS owner, %s,
			count(), countIf(outcome = 'client_error'), countIf(%s), countIf(%s AND status_code = 429), countIf(%s AND attempts.geo_blocked), countIf(outcome = 'upstream_timeout'), countIf(outcome = 'canceled'),
			sum(attempts.input_tokens), sum(attempts.cached_input_tokens), sum(attempts.output_tokens),
			sumIf(attempts.output_tokens, attempts.output_tokens > 0 AND duration_us > 0), sumIf(duration_us, attempts.output_tokens > 0 AND duration_us > 0),
			countIf(%s), sumIf(assumeNotNull(attempts.ttft_us), %s), sumForEach(arrayMap(i -> toInt64(%s AND %s = i), range(%d)))
		FROM attempts FINAL
		WHERE %s AND %s >= toDateTime(%d, 'UTC') AND NOT (credential_source = 'byok' AND NOT custom_provider)
			AND (outcome IN ('completed', 'content_filter', 'client_error') OR %s OR outcome = 'canceled' AND (isNotNull(ttft_us) OR attempts.output_tokens > 0))
		GROUP BY slot, provider, model, region, kind_of_endpoint, owner`,
		snapshot.SumColumns, s.Generation, end, as, version, failed, failed, failed, first, first, first, bucket, snapshot.TTFTBuckets, rows, end, s.OldestSlot.Unix(), failed)
	usage := fmt.Sprintf(`INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, organization_id, project_id, kafka_offset,
			attempts, requests, successes, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano_usd, ttft_histogram)
		SELECT %d, 'usage', toStartOfHour(toDateTime(%s, 'UTC'), 'UTC') AS hour, %s, provider, model, organization_id, project_id, %s,
			count(), countIf(NOT will_retry), countIf(outcome = 'completed'), sum(attempts.input_tokens), sum(attempts.cached_input_tokens), sum(attempts.cache_write_tokens + cache_write_1h_tokens), sum(attempts.output_tokens), sum(attempts.cost_nano_usd), arrayWithConstant(%d, toInt64(0))
		FROM attempts FINAL
		WHERE %s AND %s >= toDateTime(%d, 'UTC')
		GROUP BY hour, provider, model, organization_id, project_id`,
		s.Generation, end, as, version, snapshot.TTFTBuckets, rows, end, s.OldestUsage.Unix())
	for _, statement := range []string{slots, usage} {
		if err := conn.Exec(SyncOneBlock(ctx), statement); err != nil {
			return fmt.Errorf("rebuilding what the log of partition %d no longer holds: %w", s.Partition, err)
		}
	}
	return nil
}

// SyncOneBlock is chx.SyncInsert for an insert from a query.
func SyncOneBlock(ctx context.Context) context.Context {
	return chx.WithSettings(ctx, chx.Settings{"async_insert": 0, "max_insert_threads": 1})
}

// Carry copies the buckets that lie before a time from one generation to another: those whose raw
// rows are no longer all there. anew are the partitions whose topic was made anew since.
func Carry(ctx context.Context, conn *chx.Conn, from, to uint32, before time.Time, anew []int) error {
	as, version := "kafka_partition", "kafka_offset"
	if len(anew) > 0 {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(anew), " ", ","), "[]")
		as, version = fmt.Sprintf("if(kafka_partition IN (%s), -1 - kafka_partition, kafka_partition)", list), fmt.Sprintf("if(kafka_partition IN (%s), 0, kafka_offset)", list)
	}
	columns := "provider, model, region, class, organization_id, project_id, value_hash, requests, successes, cache_write_tokens, cost_nano_usd, " + snapshot.SumColumns
	err := conn.Exec(SyncOneBlock(ctx), fmt.Sprintf("INSERT INTO folds (generation, kind, at, kafka_partition, kafka_offset, %s) SELECT %d, kind, at, %s, %s, %s FROM folds FINAL WHERE generation = %d AND kind IN ('slot', 'usage') AND at < toDateTime(%d, 'UTC')",
		columns, to, as, version, columns, from, before.Unix()))
	if err != nil {
		return fmt.Errorf("carrying over buckets before %s: %w", before.Format(time.RFC3339), err)
	}
	return nil
}

// WriteProgress says that everything of a partition up to an offset is in a generation's buckets.
func WriteProgress(ctx context.Context, conn *chx.Conn, generation uint32, p int, progress Progress) error {
	err := conn.Exec(SyncOneBlock(ctx), "INSERT INTO folds (generation, kind, at, kafka_partition, kafka_offset, value_hash) VALUES (?, 'progress', 0, ?, ?, ?)", generation, int32(p), uint64(progress.Offset), progress.Hash)
	if err != nil {
		return fmt.Errorf("writing the progress of partition %d: %w", p, err)
	}
	return nil
}
