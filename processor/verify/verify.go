// Package verify recounts every bucket from the raw rows and compares: the proof that nothing was
// lost and nothing counted twice. It states the rules of counting once more, in SQL, so that a
// mistake in the code that folds does not excuse itself.
package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"turnout/internal/chx"
)

// Difference is a bucket that is not what the raw rows say.
type Difference struct {
	Kind   string // slot | usage
	At     time.Time
	Bucket string // its key, for people
	Column string
	Stored int64 // what the folds say
	Raw    int64 // what the raw rows say
}

func (d Difference) String() string {
	if d.Column == "kafka_offset" {
		return fmt.Sprintf("%s %s of %s holds the event at offset %d, progress says %d", d.Kind, d.At.UTC().Format(time.RFC3339), d.Bucket, d.Stored, d.Raw)
	}
	return fmt.Sprintf("%s %s of %s: %s is %d, its raw rows make %d", d.Kind, d.At.UTC().Format(time.RFC3339), d.Bucket, d.Column, d.Stored, d.Raw)
}

// Report is what was compared.
type Report struct {
	Slots, Hours int64
	Moving       int64        // buckets that changed meanwhile and were not compared
	Differences  []Difference // at most 100 of each kind
}

const (
	byok   = "credential_source = 'byok' AND NOT custom_provider"
	output = "(isNotNull(ttft_us) OR output_tokens > 0)"
	failed = "outcome IN ('gateway_error', 'upstream_error', 'network_error', 'upstream_timeout')"
	ended  = "if(finished_at > toDateTime64(0, 6, 'UTC'), finished_at, started_at)"
)

// slotColumns are the columns of a slot and how they follow from the rows of its attempts.
var slotColumns = [][2]string{
	{"attempts", "count()"},
	{"client_errors", "countIf(outcome = 'client_error')"},
	{"errors", "countIf(" + failed + ")"},
	{"rate_limited", "countIf(" + failed + " AND status_code = 429)"},
	{"geo_blocked", "countIf(" + failed + " AND geo_blocked)"},
	{"timeouts", "countIf(outcome = 'upstream_timeout')"},
	{"canceled", "countIf(outcome = 'canceled')"},
	{"input_tokens", "sum(input_tokens)"},
	{"cached_input_tokens", "sum(cached_input_tokens)"},
	{"output_tokens", "sum(output_tokens)"},
	{"throughput_tokens", "sumIf(output_tokens, output_tokens > 0 AND duration_us > 0)"},
	{"throughput_us", "sumIf(duration_us, output_tokens > 0 AND duration_us > 0)"},
	{"ttft_count", "countIf(stream AND ttft_us >= 0)"},
	{"ttft_us", "sumIf(ttft_us, stream AND ttft_us >= 0)"},
	{"ttft_histogram_total", "countIf(stream AND ttft_us >= 0)"},
}

var usageColumns = [][2]string{
	{"attempts", "count()"},
	{"requests", "countIf(NOT will_retry)"},
	{"successes", "countIf(outcome = 'completed')"},
	{"input_tokens", "sum(input_tokens)"},
	{"cached_input_tokens", "sum(cached_input_tokens)"},
	{"cache_write_tokens", "sum(cache_write_tokens + cache_write_1h_tokens)"},
	{"output_tokens", "sum(output_tokens)"},
	{"cost_nano_usd", "sum(cost_nano_usd)"},
}

// Folds compares the buckets of one generation with the raw rows: slots and hours that begin at a time
// or later, of which raw rows and buckets must both still be kept. Events may arrive meanwhile: rows
// count up to the progress that is stored now, and buckets that have moved past it are left out.
func Folds(ctx context.Context, conn *chx.Conn, generation uint32, slotsSince, hoursSince time.Time) (Report, error) {
	var report Report
	progress, err := readProgress(ctx, conn, generation)
	if err != nil {
		return report, err
	}
	var moved []moving
	place, err := partitions(ctx, conn, generation)
	if err != nil {
		return report, err
	}
	slots, err := compare(ctx, conn, question{
		kind: "slot", columns: slotColumns, generation: generation, since: slotsSince, progress: expression(progress), compared: &report.Slots, moved: &moved,
		key:   "toStartOfInterval(toDateTime(" + ended + ", 'UTC'), INTERVAL 10 SECOND, 'UTC') AS at, " + place + ", provider, model, region, if(endpoint = 'embeddings', 'embedding', 'text') AS class, if(custom_provider, organization_id, '') AS organization_id, '' AS project_id",
		where: "NOT (" + byok + ") AND outcome IN ('completed', 'content_filter', 'gateway_error', 'upstream_error', 'network_error', 'upstream_timeout', 'client_error', 'canceled') AND NOT (outcome = 'canceled' AND NOT " + output + ")",
	})
	if err != nil {
		return report, err
	}
	hours, err := compare(ctx, conn, question{
		kind: "usage", columns: usageColumns, generation: generation, since: hoursSince, progress: expression(progress), compared: &report.Hours, moved: &moved,
		key: "toStartOfHour(toDateTime(" + ended + ", 'UTC'), 'UTC') AS at, " + place + ", provider, model, '' AS region, '' AS class, organization_id, project_id", where: "1",
	})
	if err != nil {
		return report, err
	}
	report.Differences, report.Moving = append(slots, hours...), int64(len(moved))
	if len(moved) == 0 {
		return report, nil
	}
	// Buckets and progress are stored together: by now progress has come as far as they had.
	if progress, err = readProgress(ctx, conn, generation); err != nil {
		return report, err
	}
	for _, m := range moved {
		if m.to > progress[m.partition] {
			m.Column, m.Stored, m.Raw = "kafka_offset", m.to, progress[m.partition]
			report.Differences = append(report.Differences, m.Difference)
		}
	}
	return report, nil
}

// moving is a bucket that was past the progress when it was looked at.
type moving struct {
	Difference
	partition int32
	to        int64
}

// readProgress returns the last offset of each partition that a generation has dealt with.
func readProgress(ctx context.Context, conn *chx.Conn, generation uint32) (map[int32]int64, error) {
	rows, err := conn.Query(ctx, "SELECT kafka_partition, toInt64(max(kafka_offset)) FROM folds WHERE kind = 'progress' AND generation = ? GROUP BY kafka_partition", generation)
	if err != nil {
		return nil, fmt.Errorf("reading progress: %w", err)
	}
	defer rows.Close()
	progress := map[int32]int64{}
	for rows.Next() {
		var p int32
		var offset int64
		if err := rows.Scan(&p, &offset); err != nil {
			return nil, fmt.Errorf("reading progress: %w", err)
		}
		progress[p] = offset
	}
	return progress, rows.Err()
}

// expression is the progress of kafka_partition in SQL; -1: none.
func expression(progress map[int32]int64) string {
	from, to := []string{"toInt32(-1)"}, []string{"toInt64(-1)"}
	for _, p := range slices.Sorted(maps.Keys(progress)) {
		from, to = append(from, fmt.Sprintf("toInt32(%d)", p)), append(to, fmt.Sprintf("toInt64(%d)", progress[p]))
	}
	return fmt.Sprintf("transform(kafka_partition, [%s], [%s], toInt64(-1))", strings.Join(from, ", "), strings.Join(to, ", "))
}

// partitions says under which partition a generation keeps what a raw row makes: rows of a log from
// before the topic was made anew stand apart.
func partitions(ctx context.Context, conn *chx.Conn, generation uint32) (string, error) {
	rows, err := conn.Query(ctx, "SELECT kafka_partition, toUnixTimestamp64Milli(max(accepted_at)) FROM sink_gaps WHERE generation = ? AND cause = 'the topic was made anew' GROUP BY kafka_partition", generation)
	if err != nil {
		return "", fmt.Errorf("reading gaps: %w", err)
	}
	defer rows.Close()
	expression := "attempts.kafka_partition"
	for rows.Next() {
		var p int32
		var at int64
		if err := rows.Scan(&p, &at); err != nil {
			return "", fmt.Errorf("reading gaps: %w", err)
		}
		expression = fmt.Sprintf("if(attempts.kafka_partition = %d AND ingested_at < fromUnixTimestamp64Milli(%d, 'UTC'), toInt32(%d), %s)", p, at, -1-p, expression)
	}
	return expression + " AS part", rows.Err()
}

const keys = "at, part, provider, model, region, class, organization_id, project_id"

// question is what one kind of bucket is compared by.
type question struct {
	kind       string
	columns    [][2]string
	generation uint32
	since      time.Time
	progress   string // see expression
	key, where string // of raw rows
	compared   *int64 // is added to
	moved      *[]moving
}

func compare(ctx context.Context, conn *chx.Conn, q question) ([]Difference, error) {
	var raw, stored, total []string
	for _, c := range q.columns {
		raw = append(raw, fmt.Sprintf("toInt64(ifNull(%s, 0)) AS raw_%s, toInt64(0) AS stored_%s", c[1], c[0], c[0]))
		source := "folds." + c[0]
		if c[0] == "ttft_histogram_total" {
			source = "arraySum(folds.ttft_histogram)"
		}
		stored = append(stored, fmt.Sprintf("toInt64(0) AS raw_%s, toInt64(sum(%s)) AS stored_%s", c[0], source, c[0]))
		total = append(total, fmt.Sprintf("('%s', sum(raw_%s), sum(stored_%s))", c[0], c[0], c[0]))
	}
	// Partitions below 0 hold what an old log left: nothing of it moves, and its offsets say nothing.
	query := fmt.Sprintf(`SELECT at, concat('partition ', toString(part), ', ', provider, '/', model, if(region = '', '', concat(':', region)), ' ', class, ' ', organization_id, ' ', project_id) AS bucket,
			part, max(moved_to) AS moved, arrayFilter(c -> c.2 != c.3, [%s]) AS differing
		FROM (
			SELECT %s, %s, toInt64(-1) AS moved_to FROM attempts FINAL WHERE (part < 0 OR kafka_offset <= %s) AND %s GROUP BY %s HAVING at >= toDateTime(%d, 'UTC')
			UNION ALL
			SELECT %s, %s, if(part >= 0 AND toInt64(max(folds.kafka_offset)) > any(%s), toInt64(max(folds.kafka_offset)), toInt64(-1)) AS moved_to FROM folds FINAL WHERE generation = %d AND kind = '%s' AND at >= toDateTime(%d, 'UTC') GROUP BY %s
		) GROUP BY %s ORDER BY %s`,
		strings.Join(total, ", "),
		q.key, strings.Join(raw, ", "), q.progress, q.where, keys, q.since.Unix(),
		strings.Replace(keys, "part", "kafka_partition AS part", 1), strings.Join(stored, ", "), q.progress, q.generation, q.kind, q.since.Unix(), keys, keys, keys)
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT at, bucket, part, moved, differing.1, differing.2, differing.3 FROM (%s)", query))
	if err != nil {
		return nil, fmt.Errorf("recounting %s buckets: %w", q.kind, err)
	}
	defer rows.Close()
	var out []Difference
	for rows.Next() {
		var (
			at                time.Time
			bucket            string
			part              int32
			moved             int64
			names             []string
			fromRaw, inStored []int64
		)
		if err := rows.Scan(&at, &bucket, &part, &moved, &names, &fromRaw, &inStored); err != nil {
			return nil, fmt.Errorf("recounting %s buckets: %w", q.kind, err)
		}
		if moved >= 0 {
			*q.moved = append(*q.moved, moving{Difference: Difference{Kind: q.kind, At: at, Bucket: strings.TrimSpace(bucket)}, partition: part, to: moved})
			continue
		}
		*q.compared++
		for i := range names {
			if len(out) < 100 {
				out = append(out, Difference{Kind: q.kind, At: at, Bucket: strings.TrimSpace(bucket), Column: names[i], Stored: inStored[i], Raw: fromRaw[i]})
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("recounting %s buckets: %w", q.kind, err)
	}
	return out, nil
}
