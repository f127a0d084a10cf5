-- What is to be published for jobs that are due; or why nothing is: its request is gone, was cancelled, or has another job
-- or schedule by now.
SELECT r.payload, r.correlation_id, CASE
    WHEN r.id IS NULL THEN 'nobody asks for it any more'
    WHEN r.cancelled_at IS NOT NULL THEN 'it was cancelled'
    WHEN w.schedule_id IS NULL AND r.job_id IS DISTINCT FROM w.job_id
        OR w.schedule_id IS DISTINCT FROM r.schedule_id::text THEN 'another timing took its place'
    END AS unwanted
FROM unnest(:tenants::text[], :ids::text[], :job_ids::uuid[], :schedule_ids::text[]) WITH ORDINALITY
    AS w(tenant, id, job_id, schedule_id, position)
LEFT JOIN LATERAL (
    SELECT q.id, q.payload, q.correlation_id, q.job_id, q.schedule_id, q.cancelled_at FROM scheduler.requests q
    WHERE q.tenant = w.tenant AND q.id = w.id LIMIT 1
) r ON true
ORDER BY w.position
