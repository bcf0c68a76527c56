-- What routing saved, by project and day.
-- Only the attempt that served a request counts (final), and only where usage is known. The baseline
-- was stamped by the gateway at the prices of that moment: kind model compares with the dearest model
-- that could have been chosen (auto, smart, dynamic routes), kind provider with the dearest eligible
-- provider of the same model. The two are never added up. Ratios are ratios of sums.
SELECT
    a.project_id AS project_id,
    toDate(a.started_at, 'UTC') AS day,
    a.baseline_kind AS baseline_kind,
    count() AS requests,
    sum(a.cost_nano_usd) AS cost_nano_usd,
    sum(greatest(a.baseline_nano_usd, a.cost_nano_usd)) AS baseline_nano_usd,
    baseline_nano_usd - cost_nano_usd AS saving_nano_usd,
    if(baseline_nano_usd = 0, 0, saving_nano_usd / baseline_nano_usd) AS saving_share,
    countIf(a.reason = 'random-exploration') AS explored_requests,
    countIf(a.usage_source = 'estimated') AS estimated_requests
FROM attempts_unique AS a
WHERE a.started_at >= {from:DateTime64(3, 'UTC')}
  AND a.started_at < {to:DateTime64(3, 'UTC')}
  AND a.day BETWEEN toDate({from:DateTime64(3, 'UTC')}, 'UTC') AND toDate({to:DateTime64(3, 'UTC')}, 'UTC') -- so that retries of these days alone are read
  AND ({project:String} = '' OR a.project_id = {project:String})
  AND a.final
  AND a.baseline_kind != ''
  AND a.usage_source IN ('reported', 'estimated')
GROUP BY project_id, day, baseline_kind
ORDER BY day, project_id, baseline_kind
