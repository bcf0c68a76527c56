-- Decisions that made no call: schemas/attempt.Refused under its JSON names.
CREATE TABLE IF NOT EXISTS refusals
(
    schema_version         UInt16,
    event_id               String CODEC(ZSTD(1)),
    request_id             String CODEC(ZSTD(1)),
    client_request_id      String CODEC(ZSTD(1)),
    node_id                LowCardinality(String),
    organization_id        LowCardinality(String),
    project_id             LowCardinality(String),
    api_key_id             LowCardinality(String),
    session_hash           String CODEC(ZSTD(1)),
    requested_model        String CODEC(ZSTD(1)),
    requested_provider     LowCardinality(String),
    endpoint               LowCardinality(String),
    stream                 Bool,
    prompt_tokens_estimate Int64,
    strategy               LowCardinality(String),
    snapshot_id            String CODEC(ZSTD(1)),
    config_version         LowCardinality(String),
    price_version          LowCardinality(String),
    considered_total       Int32,
    considered_json        String CODEC(ZSTD(1)),
    considered             Array(Tuple(provider String, region String, model String, score Nullable(Float64), price Float64, uptime Nullable(Float64), latency Nullable(Float64), throughput Nullable(Float64), priority Float64, cache_supported Bool, lost_to_region String, excluded_code String, cooldown_cause String, cooldown_ends_ms Int64))
                           ALIAS JSONExtract(considered_json, 'Array(Tuple(provider String, region String, model String, score Nullable(Float64), price Float64, uptime Nullable(Float64), latency Nullable(Float64), throughput Nullable(Float64), priority Float64, cache_supported Bool, lost_to_region String, excluded_code String, cooldown_cause String, cooldown_ends_ms Int64))'),
    at                     DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    status_code            Int32,
    error_code             LowCardinality(String),
    error_message          String CODEC(ZSTD(1)),
    kafka_partition        Int32,
    kafka_offset           Int64 CODEC(Delta, ZSTD(1)),
    version                UInt64 CODEC(Delta, ZSTD(1)),
    ingested_at            DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta, ZSTD(1)),

    INDEX by_request request_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(at)
ORDER BY (project_id, at, event_id)
TTL toDateTime(at) + toIntervalSecond(2592000)
SETTINGS ttl_only_drop_parts = 1;
