-- Takes the keys that are free or lapsed; what does not come back stands for another job. A key that is seen to be
-- taken is not asked for, because asking would lock it and hold up the finish of its job. Sorted, so that two
-- callers with the same keys wait for each other instead of deadlocking.
INSERT INTO timebell.job_keys AS held (tenant, kind, key, job_id, fingerprint, lifetime_seconds)
SELECT :tenant::text, k.kind, k.key, k.id,
    timebell.job_fingerprint(k.queue, k.subject, k.payload::jsonb, k.due_at), k.lifetime_seconds
FROM unnest(:ids::uuid[], :kinds::text[], :keys::text[], :queues::text[], :subjects::text[], :payloads::text[],
    :due_ats::timestamptz[], :lifetimes::double precision[])
    AS k(id, kind, key, queue, subject, payload, due_at, lifetime_seconds)
WHERE NOT EXISTS (SELECT FROM timebell.job_keys taken
    WHERE taken.tenant = :tenant::text AND taken.kind = k.kind AND taken.key = k.key
        AND (taken.expires_at IS NULL OR taken.expires_at > coalesce(:now::timestamptz, now())))
ORDER BY k.kind, k.key
ON CONFLICT (tenant, kind, key) DO UPDATE
    SET job_id = excluded.job_id, fingerprint = excluded.fingerprint, lifetime_seconds = excluded.lifetime_seconds,
        expires_at = NULL
    WHERE held.expires_at <= coalesce(:now::timestamptz, now())
RETURNING job_id
