-- The messages of one subject in the order of their ids, which is that of their making.
SELECT m.id, m.subject, m.sequence_id, m.step, m.entry, m.recipient_id, m.channel, m.is_channel_used, m.due_at, m.status,
    m.reason, m.template, m.sent_at, m.attempt_count, m.job_id
FROM sequences.standings m
WHERE m.tenant = :tenant::text AND m.subject = :subject::text
    AND m.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY m.id LIMIT :limit::integer + 1
