-- The routing configuration and the price book behind each version that events name, once each, so
-- that a decision can be made again. The version is the hash of the content.
CREATE TABLE IF NOT EXISTS routing_configs
(
    version    String,
    body       String CODEC(ZSTD(3)),
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY version;

CREATE TABLE IF NOT EXISTS price_books
(
    version    String,
    body       String CODEC(ZSTD(3)),
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY version;
