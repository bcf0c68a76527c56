-- The table for analysts: each attempt once, with what only its whole request tells.
-- final: no later attempt was made for the request. retried: one was. retried_by: the id of the
-- attempt that succeeded in the end, if one did.
-- Attempts of one request that came later are few, so the join reads little beside attempt_no.
CREATE VIEW IF NOT EXISTS attempts_unique AS
SELECT
    attempts.*,
    attempts.considered AS considered,
    later.last_attempt_no <= attempts.attempt_no AS final,
    later.last_attempt_no > attempts.attempt_no AS retried,
    if(later.succeeded_attempt_no > attempts.attempt_no, later.succeeded_event_id, '') AS retried_by
FROM attempts FINAL
LEFT JOIN
(
    SELECT
        request_id,
        max(attempt_no) AS last_attempt_no,
        maxIf(attempt_no, outcome = 'completed') AS succeeded_attempt_no,
        argMaxIf(event_id, attempt_no, outcome = 'completed') AS succeeded_event_id
    FROM attempts
    WHERE attempt_no > 1
    GROUP BY request_id
) AS later ON later.request_id = attempts.request_id
SETTINGS do_not_merge_across_partitions_select_final = 1;
