-- What gateways poll. Rows are written first, the head last, so a head that can be read has all its
-- rows. The newest head is the highest by (generation, watermark_sum, as_of). Columns:
-- schemas/snapshot says what each holds and reads them. Both tables are dropped hour by hour.
CREATE TABLE IF NOT EXISTS snapshot_heads
(
    snapshot_id   String,
    generation    Int64,
    as_of         DateTime64(3, 'UTC'),
    watermark_sum Int64,
    watermarks    Map(Int32, Int64),
    row_count     Int64,
    checksum      UInt64,
    profiles      String
)
ENGINE = MergeTree
PARTITION BY toStartOfHour(as_of)
ORDER BY (generation, watermark_sum, as_of)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS snapshot_rows
(
    snapshot_id         String,
    as_of               DateTime64(3, 'UTC'),
    profile             LowCardinality(String),
    provider            LowCardinality(String),
    model               LowCardinality(String),
    region              LowCardinality(String),
    class               LowCardinality(String),
    organization_id     LowCardinality(String),
    history_tier        UInt8,
    attempts            Int64,
    client_errors       Int64,
    errors              Int64,
    rate_limited        Int64,
    geo_blocked         Int64,
    timeouts            Int64,
    canceled            Int64,
    input_tokens        Int64,
    cached_input_tokens Int64,
    output_tokens       Int64,
    throughput_tokens   Int64,
    throughput_us       Int64,
    ttft_count          Int64,
    ttft_us             Int64,
    ttft_histogram      Array(Int64)
)
ENGINE = MergeTree
PARTITION BY toStartOfHour(as_of)
ORDER BY (snapshot_id, profile, provider, model, region, class, organization_id, history_tier)
SETTINGS non_replicated_deduplication_window = 1000;
