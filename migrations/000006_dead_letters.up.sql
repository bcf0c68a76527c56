-- Records that could not be stored, as they came, with the cause. The same stand in the dead letter
-- topic. A value longer than the topic takes is cut, and value_bytes says how long it was.
CREATE TABLE IF NOT EXISTS dead_letters
(
    topic           LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64,
    at              DateTime64(3, 'UTC'),
    cause           String,
    key             String,
    value           String CODEC(ZSTD(3)),
    value_bytes     Int64,
    written_at      DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(at)
ORDER BY (topic, kafka_partition, kafka_offset)
TTL toDateTime(at) + toIntervalSecond(2592000)
SETTINGS ttl_only_drop_parts = 1;
