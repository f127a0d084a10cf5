-- What was planned for messages, new ones and known ones.
INSERT INTO sequences.messages AS m (tenant, id, subject, sequence_id, entry, step, recipient_id, channel, template, due_at,
    status, reason, job_id, created_at)
SELECT :tenant::text, n.id, n.subject, n.sequence_id, n.entry, n.step, n.recipient_id, n.channel, n.template, n.due_at,
    n.status, n.reason, n.job_id, coalesce(:now::timestamptz, now())
FROM unnest(:ids::uuid[], :subjects::text[], :sequence_ids::uuid[], :entries::integer[], :steps::text[],
    :recipient_ids::uuid[], :channels::text[], :templates::text[], :due_ats::timestamptz[], :statuses::text[],
    :reasons::text[], :job_ids::uuid[])
    AS n(id, subject, sequence_id, entry, step, recipient_id, channel, template, due_at, status, reason, job_id)
ON CONFLICT (tenant, id) DO UPDATE
SET channel = excluded.channel, template = excluded.template, due_at = excluded.due_at, status = excluded.status,
    reason = excluded.reason, job_id = excluded.job_id
