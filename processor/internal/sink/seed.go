package sink

import (
	"context"
	"fmt"
	"time"

	"turnout/internal/chx"
	"turnout/schemas/snapshot"
)

// Seed fills a new generation with what the raw rows below an offset of a partition make: what the
// topic no longer holds, or is not to be read again. It is folding, said in SQL.
func Seed(ctx context.Context, conn *chx.Conn, generation uint32, p int, below int64, oldestSlot, oldestUsage time.Time) error {
	const (
		end     = "if(finished_at > toDateTime64(0, 6, 'UTC'), finished_at, started_at)"
		failed  = "outcome IN ('gateway_error', 'upstream_error', 'network_error', 'upstream_timeout')"
		first   = "(stream AND ifNull(ttft_us, -1) >= 0)"
		periods = "intDiv(assumeNotNull(ttft_us), 16000)"
	)
	bucket := fmt.Sprintf("if(%s = 0, 0, least(toInt32(floor(log2(%s))) + 1, %d))", periods, periods, snapshot.TTFTBuckets-1)
	slots := fmt.Sprintf(`INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, region, class, organization_id, kafka_offset, %s)
		SELECT %d, 'slot', toStartOfInterval(toDateTime(%s, 'UTC'), INTERVAL 10 SECOND, 'UTC') AS slot, attempts.kafka_partition, provider, model, region,
			if(endpoint = 'embeddings', 'embedding', 'text') AS kind_of_endpoint, if(custom_provider, attempts.organization_id, '') AS owner, max(attempts.kafka_offset),
			count(), countIf(outcome = 'client_error'), countIf(%s), countIf(%s AND status_code = 429), countIf(%s AND attempts.geo_blocked), countIf(outcome = 'upstream_timeout'), countIf(outcome = 'canceled'),
			sum(attempts.input_tokens), sum(attempts.cached_input_tokens), sum(attempts.output_tokens),
			sumIf(attempts.output_tokens, attempts.output_tokens > 0 AND duration_us > 0), sumIf(duration_us, attempts.output_tokens > 0 AND duration_us > 0),
			countIf(%s), sumIf(assumeNotNull(attempts.ttft_us), %s), sumForEach(arrayMap(i -> toInt64(%s AND %s = i), range(%d)))
		FROM attempts FINAL
		WHERE kafka_partition = %d AND kafka_offset < %d AND %s >= toDateTime(%d, 'UTC') AND NOT (credential_source = 'byok' AND NOT custom_provider)
			AND (outcome IN ('completed', 'content_filter', 'client_error') OR %s OR outcome = 'canceled' AND (isNotNull(ttft_us) OR attempts.output_tokens > 0))
		GROUP BY slot, attempts.kafka_partition, provider, model, region, kind_of_endpoint, owner`,
		snapshot.SumColumns, generation, end, failed, failed, failed, first, first, first, bucket, snapshot.TTFTBuckets, p, below, end, oldestSlot.Unix(), failed)
	usage := fmt.Sprintf(`INSERT INTO folds (generation, kind, at, kafka_partition, provider, model, organization_id, project_id, kafka_offset,
			attempts, requests, successes, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano_usd)
		SELECT %d, 'usage', toStartOfHour(toDateTime(%s, 'UTC'), 'UTC') AS hour, attempts.kafka_partition, provider, model, organization_id, project_id, max(attempts.kafka_offset),
			count(), countIf(NOT will_retry), countIf(outcome = 'completed'), sum(attempts.input_tokens), sum(attempts.cached_input_tokens), sum(attempts.cache_write_tokens + cache_write_1h_tokens), sum(attempts.output_tokens), sum(attempts.cost_nano_usd)
		FROM attempts FINAL
		WHERE kafka_partition = %d AND kafka_offset < %d AND %s >= toDateTime(%d, 'UTC')
		GROUP BY hour, attempts.kafka_partition, provider, model, organization_id, project_id`,
		generation, end, p, below, end, oldestUsage.Unix())
	for _, statement := range []string{slots, usage} {
		if err := conn.Exec(SyncOneBlock(ctx), statement); err != nil {
			return fmt.Errorf("rebuilding what the log of partition %d no longer holds: %w", p, err)
		}
	}
	return nil
}

// SyncOneBlock is chx.SyncInsert for an insert from a query.
func SyncOneBlock(ctx context.Context) context.Context {
	return chx.WithSettings(ctx, chx.Settings{"async_insert": 0, "max_insert_threads": 1})
}
