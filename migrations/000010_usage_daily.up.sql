-- Usage by day, for as long as anybody asks. Written from closed hours by a job that may run again:
-- the version grows with what the hours had seen.
CREATE TABLE IF NOT EXISTS usage_daily
(
    day                 Date,
    organization_id     LowCardinality(String),
    project_id          LowCardinality(String),
    model               LowCardinality(String),
    provider            LowCardinality(String),
    attempts            Int64,
    requests            Int64,
    successes           Int64,
    input_tokens        Int64,
    cached_input_tokens Int64,
    cache_write_tokens  Int64,
    output_tokens       Int64,
    cost_nano_usd       Int64,
    version             UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(day)
ORDER BY (organization_id, project_id, day, model, provider)
TTL toDateTime(day) + toIntervalSecond(34560000);
