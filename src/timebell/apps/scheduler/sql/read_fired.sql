-- What is to be published for jobs that are due; or why nothing is: its request is gone, was cancelled, or has another job
-- or schedule by now. Payloads may be large: once they come to so many bytes, those that follow are left for another time.
WITH found AS (
    SELECT w.position, r.payload, r.correlation_id, CASE
        WHEN r.id IS NULL THEN 'nobody asks for it any more'
        WHEN r.cancelled_at IS NOT NULL THEN 'it was cancelled'
        WHEN w.schedule_id IS NULL AND r.job_id IS DISTINCT FROM w.job_id
            OR w.schedule_id IS DISTINCT FROM r.schedule_id::text THEN 'another timing took its place'
        END AS unwanted,
        coalesce(sum(octet_length(r.payload::text)) OVER (ORDER BY w.position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) >= :bytes_max::integer AS is_left
    FROM unnest(:tenants::text[], :ids::text[], :job_ids::uuid[], :schedule_ids::text[]) WITH ORDINALITY
        AS w(tenant, id, job_id, schedule_id, position)
    LEFT JOIN LATERAL (
        SELECT q.id, q.payload, q.correlation_id, q.job_id, q.schedule_id, q.cancelled_at FROM scheduler.requests q
        WHERE q.tenant = w.tenant AND q.id = w.id LIMIT 1
    ) r ON true
)
SELECT CASE WHEN NOT is_left THEN payload END AS payload, correlation_id, unwanted, is_left FROM found ORDER BY position
