-- The newest events that belong to a job's journey: those with its correlation id, and those about its subject from
-- when it was enqueued until it came to an end.
SELECT e.id, e.name, e.subject, e.actor, e.data, e.correlation_id, e.occurred_at, e.recorded_at
FROM (
    (
        SELECT e.id FROM timebell.events e
        WHERE e.tenant = :tenant::text AND e.correlation_id = :correlation_id::text
        ORDER BY e.id DESC LIMIT :rows_max::integer
    )
    UNION
    (
        SELECT e.id FROM timebell.events e
        WHERE e.tenant = :tenant::text AND e.subject = :subject::text
            AND e.recorded_at BETWEEN :from_at::timestamptz AND coalesce(:until_at::timestamptz, 'infinity')
        ORDER BY e.id DESC LIMIT :rows_max::integer
    )
    ORDER BY id DESC LIMIT :rows_max::integer
) found
JOIN timebell.events e ON e.id = found.id
ORDER BY e.recorded_at, e.id
