-- What stands behind keys that could not be taken, and whether it is the same thing that was asked for now. The empty
-- message makes the caller's commit wait for the standby as a write does: what is seen here may not be safe there yet.
SELECT k.id AS asked_id, held.job_id, j.id IS NOT NULL AS is_unfinished, j.started_by IS NOT NULL AS is_started,
    j.version, held.fingerprint = timebell.job_fingerprint(k.queue, k.subject, k.payload::jsonb, k.due_at) AS is_same
FROM unnest(:ids::uuid[], :kinds::text[], :keys::text[], :queues::text[], :subjects::text[], :payloads::text[],
    :due_ats::timestamptz[]) AS k(id, kind, key, queue, subject, payload, due_at)
JOIN timebell.job_keys held ON held.tenant = :tenant::text AND held.kind = k.kind AND held.key = k.key
LEFT JOIN timebell.jobs j ON j.id = held.job_id
WHERE (SELECT pg_logical_emit_message(true, 'timebell', '')) IS NOT NULL
ORDER BY k.kind, k.key
