-- What was spent, by model and provider. Every attempt counts that was billed, retried ones too.
SELECT
    a.model AS model,
    a.provider AS provider,
    count() AS attempts,
    countIf(a.final) AS requests,
    sum(a.input_tokens) AS input_tokens,
    sum(a.cached_input_tokens) AS cached_input_tokens,
    sum(a.output_tokens) AS output_tokens,
    sum(a.cost_nano_usd) AS cost_nano_usd,
    sumIf(a.cost_nano_usd, NOT a.final) AS retried_nano_usd,
    countIf(a.usage_source = 'missing' AND a.outcome = 'completed') AS unmetered_attempts
FROM attempts_unique AS a
WHERE a.started_at >= {from:DateTime64(3, 'UTC')}
  AND a.started_at < {to:DateTime64(3, 'UTC')}
  AND a.day BETWEEN toDate({from:DateTime64(3, 'UTC')}, 'UTC') AND toDate({to:DateTime64(3, 'UTC')}, 'UTC') -- so that retries of these days alone are read
  AND ({project:String} = '' OR a.project_id = {project:String})
GROUP BY model, provider
ORDER BY cost_nano_usd DESC, model, provider
