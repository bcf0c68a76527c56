-- What routing relies on: absolute sums, one row for a bucket of one Kafka partition, versioned by
-- the offset of the last event in it. A batch writes its buckets and its progress as one block into
-- one partition of this table, so that they become visible together or not at all.
--
-- kind slot: 10 seconds (at is their beginning) of one provider, model, region, class, and of one
-- organization where the provider is custom. kind usage: an hour of an organization, project, model
-- and provider. kind progress: kafka_offset is the last record of the partition that was dealt with,
-- value_hash the hash of its value. generation stands in the sorting key too: FINAL collapses rows of
-- equal keys whatever partition they are in.
CREATE TABLE IF NOT EXISTS folds
(
    generation             UInt32,
    kind                   Enum8('slot' = 1, 'usage' = 2, 'progress' = 3),
    at                     DateTime('UTC'),
    kafka_partition        Int32,
    provider               LowCardinality(String),
    model                  LowCardinality(String),
    region                 LowCardinality(String),
    class                  LowCardinality(String),
    organization_id        LowCardinality(String),
    project_id             LowCardinality(String),

    kafka_offset           UInt64,
    value_hash             UInt64,

    attempts               Int64,
    requests               Int64,
    successes              Int64,
    client_errors          Int64,
    errors                 Int64,
    rate_limited           Int64,
    geo_blocked            Int64,
    timeouts               Int64,
    canceled               Int64,
    input_tokens           Int64,
    cached_input_tokens    Int64,
    cache_write_tokens     Int64,
    output_tokens          Int64,
    throughput_tokens      Int64,
    throughput_us          Int64,
    ttft_count             Int64,
    ttft_us                Int64,
    ttft_histogram         Array(Int64),
    cost_nano_usd          Int64,

    written_at             DateTime('UTC') DEFAULT now('UTC')
)
ENGINE = ReplacingMergeTree(kafka_offset)
PARTITION BY generation
ORDER BY (generation, kind, at, kafka_partition, provider, model, region, class, organization_id, project_id)
TTL at + toIntervalSecond(172800) WHERE kind = 'slot',
    at + toIntervalSecond(691200) WHERE kind = 'usage';
