-- One row for each finished attempt: every field of schemas/attempt under its JSON name.
--
-- The sorting and the partition key use only what the start record of an attempt holds, so that an
-- interrupted row and a finished one of the same attempt meet in one partition and one place. The
-- version makes the row of the lowest offset stay: a duplicate further down the log never replaces
-- what was counted. Read attempts_unique, not this table: merges collapse duplicates only in time.
--
-- considered is kept as the JSON of the event and unfolded when it is read: analysts see an array
-- of named tuples, and what a decision was made from is kept to the last digit.
--
-- Each column of each part that is written has a buffer of max_compress_block_size: with the default of
-- 1 MiB an insert that falls into many days would take gigabytes.
CREATE TABLE IF NOT EXISTS attempts
(
    schema_version            UInt16,
    event_id                  String CODEC(ZSTD(1)),
    request_id                String CODEC(ZSTD(1)),
    client_request_id         String CODEC(ZSTD(1)),
    parent_request_id         String CODEC(ZSTD(1)),
    span_id                   String CODEC(ZSTD(1)),
    purpose                   LowCardinality(String),
    attempt_no                Int32,
    model_attempt_no          Int32,
    will_retry                Bool,
    node_id                   LowCardinality(String),
    organization_id           LowCardinality(String),
    project_id                LowCardinality(String),
    api_key_id                LowCardinality(String),
    session_hash              String CODEC(ZSTD(1)),

    requested_model           LowCardinality(String),
    requested_provider        LowCardinality(String),
    endpoint                  LowCardinality(String),
    stream                    Bool,
    prompt_tokens_estimate    Int64,
    client                    LowCardinality(String),
    source                    LowCardinality(String),
    coding_client             LowCardinality(String),
    strategy                  LowCardinality(String),

    provider                  LowCardinality(String),
    model                     LowCardinality(String),
    upstream_model            LowCardinality(String),
    region                    LowCardinality(String),
    credential_source         LowCardinality(String),
    provider_key_hash         LowCardinality(String),
    provider_key_id           LowCardinality(String),
    provider_key_label        LowCardinality(String),
    service_tier              LowCardinality(String),
    custom_provider           Bool,

    reason                    LowCardinality(String),
    propensity                Float64,
    seed                      UInt64,
    draw                      Nullable(Float64),
    algorithm_version         Int32,
    snapshot_id               String CODEC(ZSTD(1)),
    config_version            LowCardinality(String),
    original_provider         LowCardinality(String),
    original_uptime           Nullable(Float64),
    no_fallback               Bool,
    stripped_parameters       Array(String),
    eligible_provider_keys    Int32,
    hit_rate                  Nullable(Float64),
    output_ratio              Nullable(Float64),
    considered_total          Int32,
    considered_json           String CODEC(ZSTD(1)),
    considered                Array(Tuple(provider String, region String, model String, score Nullable(Float64), price Float64, uptime Nullable(Float64), latency Nullable(Float64), throughput Nullable(Float64), priority Float64, cache_supported Bool, lost_to_region String, excluded_code String, cooldown_cause String, cooldown_ends_ms Int64))
                              ALIAS JSONExtract(considered_json, 'Array(Tuple(provider String, region String, model String, score Nullable(Float64), price Float64, uptime Nullable(Float64), latency Nullable(Float64), throughput Nullable(Float64), priority Float64, cache_supported Bool, lost_to_region String, excluded_code String, cooldown_cause String, cooldown_ends_ms Int64))'),

    started_at                DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    finished_at               DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    clock_offset_us           Int64,
    queue_us                  Int64,
    connect_us                Int64,
    ttft_us                   Nullable(Int64),
    duration_us               Int64,
    overhead_us               Int64,

    outcome                   LowCardinality(String),
    error_type                LowCardinality(String),
    status_code               Int32,
    finish_reason             LowCardinality(String),
    geo_blocked               Bool,

    input_tokens              Int64,
    cached_input_tokens       Int64,
    cache_write_tokens        Int64,
    cache_write_1h_tokens     Int64,
    output_tokens             Int64,
    reasoning_tokens          Int64,
    image_input_tokens        Int64,
    audio_input_tokens        Int64,
    audio_output_tokens       Int64,
    usage_source              LowCardinality(String),
    usage_flag                LowCardinality(String),

    price_version             LowCardinality(String),
    cost_nano_usd             Int64,
    cost_input_nano_usd       Int64,
    cost_cached_nano_usd      Int64,
    cost_cache_write_nano_usd Int64,
    cost_output_nano_usd      Int64,
    cost_image_input_nano_usd Int64,
    cost_audio_nano_usd       Int64,
    cost_request_nano_usd     Int64,
    baseline_kind             LowCardinality(String),
    baseline_model            LowCardinality(String),
    baseline_provider         LowCardinality(String),
    baseline_nano_usd         Int64,

    kafka_partition           Int32,
    kafka_offset              Int64 CODEC(Delta, ZSTD(1)),
    version                   UInt64 CODEC(Delta, ZSTD(1)),
    ingested_at               DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta, ZSTD(1)),

    INDEX by_request request_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX by_span span_id TYPE bloom_filter(0.01) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(started_at)
ORDER BY (project_id, started_at, event_id)
TTL toDateTime(started_at) + toIntervalSecond(7776000)
SETTINGS ttl_only_drop_parts = 1, max_compress_block_size = 131072;
