-- Usage by hour out of the live folds: what gateways ask for a project's observed rates.
CREATE VIEW IF NOT EXISTS usage_hourly AS
SELECT
    at AS hour,
    organization_id,
    project_id,
    model,
    provider,
    sum(folds.attempts) AS attempts,
    sum(folds.requests) AS requests,
    sum(folds.successes) AS successes,
    sum(folds.input_tokens) AS input_tokens,
    sum(folds.cached_input_tokens) AS cached_input_tokens,
    sum(folds.cache_write_tokens) AS cache_write_tokens,
    sum(folds.output_tokens) AS output_tokens,
    sum(folds.cost_nano_usd) AS cost_nano_usd,
    sum(folds.kafka_offset) AS offset_sum
FROM folds FINAL
WHERE kind = 'usage' AND generation = (SELECT max(generation) FROM fold_generations)
GROUP BY hour, organization_id, project_id, model, provider;
