SELECT m.id, m.subject, m.sequence_id, m.step, m.entry, m.recipient_id, m.channel, m.is_channel_used, m.due_at, m.status,
    m.reason, m.template, m.sent_at, m.attempt_count, m.job_id
FROM sequences.standings m WHERE m.tenant = :tenant::text AND m.id = :id::uuid
