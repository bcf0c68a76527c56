-- Which generation of folds is live: the highest one here. A replay fills the next one and adds its
-- row when it has passed the live one.
CREATE TABLE IF NOT EXISTS fold_generations
(
    generation UInt32,
    live_since DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'),
    reason     String
)
ENGINE = ReplacingMergeTree(live_since)
ORDER BY generation;

INSERT INTO fold_generations (generation, reason)
SELECT 1, 'first' WHERE (SELECT count() FROM fold_generations) = 0;
