-- What retrying recovered: requests whose first attempt failed, by the provider that failed and how,
-- and how they ended. A request belongs to the time in which its first attempt began; the others may lie
-- behind its end.
SELECT
    first_provider AS provider,
    first_error AS error_type,
    count() AS requests,
    countIf(did_complete) AS recovered,
    countIf(did_complete AND last_provider != first_provider) AS recovered_elsewhere,
    sum(tries) AS attempts,
    sum(wasted) AS wasted_nano_usd
FROM
(
    SELECT
        a.request_id AS request_id,
        argMin(a.provider, a.attempt_no) AS first_provider,
        argMin(a.error_type, a.attempt_no) AS first_error,
        argMin(a.outcome, a.attempt_no) AS first_outcome,
        argMax(a.provider, a.attempt_no) AS last_provider,
        count() AS tries,
        max(a.outcome = 'completed') AS did_complete,
        sumIf(a.cost_nano_usd, a.outcome != 'completed') AS wasted
    FROM attempts_unique AS a
    WHERE a.started_at >= {from:DateTime64(3, 'UTC')}
      AND a.started_at < {to:DateTime64(3, 'UTC')} + toIntervalHour(1) -- no request takes an hour
      AND a.day BETWEEN toDate({from:DateTime64(3, 'UTC')}, 'UTC') AND toDate({to:DateTime64(3, 'UTC')} + toIntervalHour(1), 'UTC') -- so that retries of these days alone are read
      AND ({project:String} = '' OR a.project_id = {project:String})
    GROUP BY request_id
    HAVING min(a.attempt_no) = 1 AND min(a.started_at) < {to:DateTime64(3, 'UTC')}
)
WHERE first_outcome IN ('gateway_error', 'upstream_error', 'upstream_timeout', 'network_error')
GROUP BY provider, error_type
ORDER BY requests DESC, provider, error_type
