-- Offsets begin again when a topic is made anew, so a place in the log alone does not name a record:
-- record_hash does, of its time, key and value. What the old log left is not replaced by the new one.
ALTER TABLE dead_letters
    ADD COLUMN IF NOT EXISTS record_hash UInt64,
    MODIFY ORDER BY (topic, kafka_partition, kafka_offset, record_hash);

ALTER TABLE config_audit
    ADD COLUMN IF NOT EXISTS record_hash UInt64,
    MODIFY ORDER BY (kind, id, kafka_partition, kafka_offset, record_hash);

ALTER TABLE refusals
    ADD COLUMN IF NOT EXISTS record_hash UInt64 AFTER kafka_offset;
