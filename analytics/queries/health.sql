-- How well each provider did, over time, by steps of {step} seconds.
-- Uptime as routing counts it: client errors, interrupted attempts and those canceled before any output
-- stand on neither side, and every failed attempt counts against its provider, whatever a retry did.
-- availability leaves rate limits and geographic refusals out. Tenants' own keys are left out, as
-- routing leaves them out, and so are custom providers' but for their own project.
SELECT
    toStartOfInterval(a.finished_at, toIntervalSecond({step:UInt32}), 'UTC') AS at,
    a.provider AS provider,
    a.model AS model,
    countIf(a.outcome != 'interrupted' AND NOT (a.outcome = 'canceled' AND a.output_tokens = 0 AND isNull(a.ttft_us))) AS attempts,
    countIf(a.outcome IN ('gateway_error', 'upstream_error', 'upstream_timeout', 'network_error')) AS errors,
    countIf(a.outcome = 'client_error') AS client_errors,
    countIf(a.error_type = 'rate_limited') AS rate_limited,
    countIf(a.geo_blocked) AS geo_blocked,
    toInt64(attempts) - toInt64(client_errors) AS counted,
    if(counted <= 0, NULL, 100 - 100 * least(toInt64(errors), counted) / counted) AS uptime,
    if(counted <= 0, NULL, 100 - 100 * least(greatest(toInt64(errors) - toInt64(rate_limited) - toInt64(geo_blocked), 0), counted) / counted) AS availability,
    if(countIf(isNotNull(a.ttft_us)) = 0, NULL, quantileIf(0.5)(assumeNotNull(a.ttft_us), isNotNull(a.ttft_us)) / 1000) AS ttft_p50_ms,
    if(countIf(isNotNull(a.ttft_us)) = 0, NULL, quantileIf(0.95)(assumeNotNull(a.ttft_us), isNotNull(a.ttft_us)) / 1000) AS ttft_p95_ms,
    if(sumIf(a.duration_us, a.output_tokens > 0) = 0, NULL, sum(a.output_tokens) * 1e6 / sumIf(a.duration_us, a.output_tokens > 0)) AS throughput
FROM attempts_unique AS a
WHERE a.finished_at >= {from:DateTime64(3, 'UTC')}
  AND a.finished_at < {to:DateTime64(3, 'UTC')}
  AND a.started_at >= {from:DateTime64(3, 'UTC')} - toIntervalDay(1) -- no attempt takes a day; rows stand by their start
  AND a.started_at < {to:DateTime64(3, 'UTC')}
  AND a.day BETWEEN toDate({from:DateTime64(3, 'UTC')}, 'UTC') - 1 AND toDate({to:DateTime64(3, 'UTC')}, 'UTC') -- so that retries of these days alone are read
  AND ({project:String} = '' OR a.project_id = {project:String})
  AND a.credential_source != 'byok'
  AND (NOT a.custom_provider OR {project:String} != '')
GROUP BY at, provider, model
ORDER BY at, provider, model
