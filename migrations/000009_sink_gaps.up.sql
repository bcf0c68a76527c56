-- Ranges of the attempts topic that were never read, and who said that this is accepted. Both ends
-- are the first and the last offset that is missing.
CREATE TABLE IF NOT EXISTS sink_gaps
(
    generation      UInt32,
    kafka_partition Int32,
    first_offset    Int64,
    last_offset     Int64,
    cause           String,
    accepted_at     DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = MergeTree
ORDER BY (generation, kafka_partition, first_offset)
SETTINGS non_replicated_deduplication_window = 1000;
