-- The messages of some subjects as they were planned last. One whose job has come to its end is over, whatever became of it.
SELECT m.subject, m.id, m.sequence_id, m.entry, m.step, m.recipient_id, m.status, m.reason, m.due_at, m.job_id,
    m.settled_at IS NOT NULL OR m.status = 'scheduled' AND NOT EXISTS (
        SELECT FROM timebell.jobs j WHERE j.tenant = m.tenant AND j.id = m.job_id) AS is_final
FROM sequences.messages m
WHERE m.tenant = :tenant::text AND m.subject = ANY (:subjects::text[])
ORDER BY m.subject, m.id
