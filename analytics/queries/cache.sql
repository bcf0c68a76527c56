-- How much of the input came from providers' prompt caches, by project, model and provider.
SELECT
    a.project_id AS project_id,
    a.model AS model,
    a.provider AS provider,
    count() AS attempts,
    sum(a.input_tokens) AS input_tokens,
    sum(least(a.cached_input_tokens, a.input_tokens)) AS cached_input_tokens,
    sum(a.cache_write_tokens + a.cache_write_1h_tokens) AS cache_write_tokens,
    if(input_tokens = 0, 0, cached_input_tokens / input_tokens) AS hit_rate,
    sum(a.cost_cached_nano_usd) AS cost_cached_nano_usd,
    countIf(a.reason = 'session-sticky') AS session_attempts
FROM attempts_unique AS a
WHERE a.started_at >= {from:DateTime64(3, 'UTC')}
  AND a.started_at < {to:DateTime64(3, 'UTC')}
  AND a.day BETWEEN toDate({from:DateTime64(3, 'UTC')}, 'UTC') AND toDate({to:DateTime64(3, 'UTC')}, 'UTC') -- so that retries of these days alone are read
  AND ({project:String} = '' OR a.project_id = {project:String})
  AND a.outcome = 'completed'
  AND a.usage_source = 'reported'
GROUP BY project_id, model, provider
ORDER BY input_tokens DESC, project_id, model, provider
