-- Messages that are due and wait for somebody to send them, those first that wait longest. What has no job any more is over,
-- and what waits for its next attempt is not due yet. The job is asked once and by its id: LIMIT 1 says so.
SELECT m.id, m.subject, m.sequence_id, m.step, m.entry, m.recipient_id, m.channel, m.due_at, 'scheduled' AS status, m.reason,
    m.template, m.sent_at, m.attempt_count, m.job_id
FROM sequences.messages m
CROSS JOIN LATERAL (
    SELECT j.run_at, j.started_by FROM timebell.jobs j WHERE j.tenant = m.tenant AND j.id = m.job_id LIMIT 1
) owed
WHERE m.tenant = :tenant::text AND m.status = 'scheduled' AND m.due_at <= :before::timestamptz
    AND owed.started_by IS NULL AND owed.run_at <= :before::timestamptz
ORDER BY m.due_at, m.id LIMIT :limit::integer
