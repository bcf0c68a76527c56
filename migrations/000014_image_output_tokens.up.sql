-- Tokens of images that a model made, which have a price of their own: schemas/attempt under its JSON name.
ALTER TABLE attempts
    ADD COLUMN IF NOT EXISTS image_output_tokens Int64 AFTER audio_input_tokens;

-- A view keeps the columns it was made with, so it is made anew: otherwise as in 12.
CREATE OR REPLACE VIEW attempts_unique AS
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
