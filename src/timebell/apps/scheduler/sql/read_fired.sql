-- What is to be published for jobs that are due, and the instant at which that is.
SELECT r.payload, r.correlation_id, r.job_id, r.schedule_id, r.cancelled_at, r.id IS NOT NULL AS is_known,
    coalesce(:now::timestamptz, now()) AS now
FROM unnest(:tenants::text[], :ids::text[]) WITH ORDINALITY AS w(tenant, id, position)
LEFT JOIN LATERAL (
    SELECT q.id, q.payload, q.correlation_id, q.job_id, q.schedule_id, q.cancelled_at FROM scheduler.requests q
    WHERE q.tenant = w.tenant AND q.id = w.id LIMIT 1
) r ON true
ORDER BY w.position
