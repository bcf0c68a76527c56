package main

import (
	"context"
	"fmt"
	"strings"

	"turnout/schemas/topic"
)

// engine is what one would set up without Turnout: a table of the Kafka engine and views that carry
// its records on, into a copy of the attempts table, which replaces duplicates, and into sums by ten
// seconds and by hour.
type engine struct{}

func (e *engine) name() string    { return "ClickHouse's Kafka engine" }
func (e *engine) rows() string    { return "engine_attempts" }
func (e *engine) counted() string { return "engine_usage" }
func (e *engine) pids() []int     { return nil }
func (e *engine) stop()           {}

func (e *engine) kill(context.Context, *bench) (bool, error) { return false, nil }

func (e *engine) begin(ctx context.Context, b *bench) error {
	rows, err := b.db.Query(ctx, "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'attempts' AND default_kind = '' AND name NOT IN ('considered_json', 'kafka_partition', 'kafka_offset', 'version') ORDER BY position")
	if err != nil {
		return err
	}
	defer rows.Close()
	var declared, names []string
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return err
		}
		declared, names = append(declared, name+" "+kind), append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	list := strings.Join(names, ", ")
	const ended = "if(finished_at > toDateTime64(0, 6, 'UTC'), finished_at, started_at)"
	for _, statement := range []string{
		"CREATE TABLE engine_attempts AS attempts",
		"CREATE TABLE engine_usage (hour DateTime('UTC'), organization_id LowCardinality(String), project_id LowCardinality(String), model LowCardinality(String), provider LowCardinality(String), attempts Int64, requests Int64, successes Int64, input_tokens Int64, cached_input_tokens Int64, output_tokens Int64, cost_nano_usd Int64) ENGINE = SummingMergeTree ORDER BY (hour, organization_id, project_id, model, provider)",
		"CREATE TABLE engine_slots (at DateTime('UTC'), provider LowCardinality(String), model LowCardinality(String), region LowCardinality(String), attempts Int64, errors Int64, input_tokens Int64, output_tokens Int64, throughput_tokens Int64, throughput_us Int64, ttft_count Int64, ttft_us Int64) ENGINE = SummingMergeTree ORDER BY (at, provider, model, region)",
		"CREATE TABLE engine_queue (" + strings.Join(declared, ", ") + ", considered String) ENGINE = Kafka SETTINGS kafka_broker_list = '" + b.kafka.Addr() + "', kafka_topic_list = '" + topic.Attempts +
			fmt.Sprintf("', kafka_group_name = 'engine-%d', kafka_format = 'JSONEachRow', kafka_num_consumers = 1, kafka_max_block_size = 20000, kafka_flush_interval_ms = 1000, ", b.runs) +
			"date_time_input_format = 'best_effort', input_format_json_read_arrays_as_strings = 1, input_format_skip_unknown_fields = 1",
		"CREATE MATERIALIZED VIEW engine_to_attempts TO engine_attempts AS SELECT " + list + ", considered AS considered_json, toInt32(_partition) AS kafka_partition, toInt64(_offset) AS kafka_offset, 18446744073709551615 - _offset AS version FROM engine_queue",
		"CREATE MATERIALIZED VIEW engine_to_usage TO engine_usage AS SELECT toStartOfHour(toDateTime(" + ended + ", 'UTC'), 'UTC') AS hour, organization_id, project_id, model, provider, toInt64(count()) AS attempts, toInt64(countIf(NOT will_retry)) AS requests, toInt64(countIf(outcome = 'completed')) AS successes, sum(engine_queue.input_tokens) AS input_tokens, sum(engine_queue.cached_input_tokens) AS cached_input_tokens, sum(engine_queue.output_tokens) AS output_tokens, sum(engine_queue.cost_nano_usd) AS cost_nano_usd FROM engine_queue GROUP BY hour, organization_id, project_id, model, provider",
		"CREATE MATERIALIZED VIEW engine_to_slots TO engine_slots AS SELECT toStartOfInterval(toDateTime(" + ended + ", 'UTC'), INTERVAL 10 SECOND, 'UTC') AS at, provider, model, region, toInt64(count()) AS attempts, toInt64(countIf(outcome IN ('gateway_error', 'upstream_error', 'network_error', 'upstream_timeout'))) AS errors, sum(engine_queue.input_tokens) AS input_tokens, sum(engine_queue.output_tokens) AS output_tokens, sumIf(engine_queue.output_tokens, duration_us > 0) AS throughput_tokens, sumIf(duration_us, engine_queue.output_tokens > 0) AS throughput_us, toInt64(countIf(stream AND engine_queue.ttft_us >= 0)) AS ttft_count, toInt64(ifNull(sumIf(engine_queue.ttft_us, stream AND engine_queue.ttft_us >= 0), 0)) AS ttft_us FROM engine_queue GROUP BY at, provider, model, region",
	} {
		if err := b.db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s...: %w", statement, err)
		}
	}
	return nil
}

func (e *engine) complaint(ctx context.Context, b *bench) string {
	var text string
	if err := b.db.QueryRow(ctx, "SELECT arrayStringConcat(groupArray(concat(toString(num_messages_read), ' read, ', toString(num_commits), ' commits, last poll ', toString(last_poll_time), ', assigned ', toString(length(assignments.partition_id)), ': ', arrayStringConcat(arraySlice(exceptions.text, -2), ' | '))), '\n') FROM system.kafka_consumers WHERE database = currentDatabase()").Scan(&text); err != nil {
		return err.Error()
	}
	return text
}
