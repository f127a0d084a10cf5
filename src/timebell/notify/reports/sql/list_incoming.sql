-- Reports that nobody has applied yet, the oldest first. is_fresh: the delivery may not have been written down yet.
SELECT provider, report_id, provider_id, kind, occurred_at, body::text AS body,
    received_at > coalesce(:now::timestamptz, now()) - :fresh::interval AS is_fresh
FROM timebell_notify.provider_reports
WHERE applied IS NULL
ORDER BY received_at LIMIT :limit::integer
