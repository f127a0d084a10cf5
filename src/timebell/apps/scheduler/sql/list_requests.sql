-- The requests of a tenant in the order of their coming. With a status, so many rows are looked at as one call may, and the
-- one at which looking stopped comes back too, so that the next page can go on from there. Payloads may be large: no more
-- come than make a page, and one. BETWEEN as in the kernel's lists.
WITH looked_at AS MATERIALIZED (
    SELECT s.*, (:status::text IS NULL OR s.status = :status::text) AS is_match,
        row_number() OVER (ORDER BY s.number) = :look_max::integer AS is_end
    FROM scheduler.standings s
    WHERE s.tenant BETWEEN :tenant::text AND :tenant::text
        AND s.number > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY s.number LIMIT :look_max::integer
), found AS MATERIALIZED (
    SELECT * FROM looked_at WHERE is_match OR is_end ORDER BY number LIMIT :limit::integer + 1
), measured AS (
    SELECT *, sum(octet_length(payload::text)) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        AS bytes_before
    FROM found
)
SELECT number AS id, id AS name, tenant, status, due_at, recurrence, timezone, start_at, misfire, payload, correlation_id,
    upcoming_at, fired_count, created_at, updated_at, is_match, is_end, coalesce(:now::timestamptz, now()) AS now
FROM measured
WHERE coalesce(bytes_before, 0) <= :bytes_max::integer
ORDER BY number
