-- The table for analysts, as in 12, made so that a question about an hour does not read the retries of
-- 90 days: the day of an attempt is a column, and attempts are joined with the later ones of that day
-- and the next. A condition on day reaches both sides of the join, one on started_at only the left, so
-- say both. No request takes a day.
CREATE OR REPLACE VIEW attempts_unique AS
SELECT
    this.*,
    later.last_attempt_no <= this.attempt_no AS final,
    later.last_attempt_no > this.attempt_no AS retried,
    if(later.succeeded_attempt_no > this.attempt_no, later.succeeded_event_id, '') AS retried_by
FROM
(
    SELECT attempts.*, attempts.considered AS considered, toDate(attempts.started_at) AS day FROM attempts FINAL
) AS this
LEFT JOIN
(
    SELECT
        request_id,
        day,
        max(attempt_no) AS last_attempt_no,
        maxIf(attempt_no, outcome = 'completed') AS succeeded_attempt_no,
        argMaxIf(event_id, attempt_no, outcome = 'completed') AS succeeded_event_id
    FROM
    (
        SELECT request_id, toDate(started_at) AS day, attempt_no, outcome, event_id FROM attempts WHERE attempt_no > 1
        UNION ALL
        SELECT request_id, toDate(started_at) - 1 AS day, attempt_no, outcome, event_id FROM attempts WHERE attempt_no > 1
    )
    GROUP BY request_id, day
) AS later ON later.request_id = this.request_id AND later.day = this.day
SETTINGS do_not_merge_across_partitions_select_final = 1;
