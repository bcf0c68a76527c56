-- Every record of the configuration topic, which compacts them away: what was set and when. A
-- deleted document has an empty body.
CREATE TABLE IF NOT EXISTS config_audit
(
    kind            LowCardinality(String),
    id              String,
    at              DateTime64(3, 'UTC'),
    key             String,
    body            String CODEC(ZSTD(3)),
    deleted         Bool,
    kafka_partition Int32,
    kafka_offset    Int64,
    written_at      DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (kind, id, kafka_partition, kafka_offset);
