-- The pauses in force, of everyone first. A tenant sees its own and everyone's; no tenant means an operator, who
-- sees the first so many.
SELECT p.queue, p.tenant, p.reason, p.actor, p.paused_at
FROM (
    (SELECT * FROM timebell.queue_pauses
    WHERE :tenant::text IS NULL
    ORDER BY queue, tenant LIMIT :rows_max::integer)
    UNION ALL
    (SELECT * FROM timebell.queue_pauses
    WHERE tenant = '' AND :tenant::text IS NOT NULL
    ORDER BY queue LIMIT :rows_max::integer)
    UNION ALL
    (SELECT * FROM timebell.queue_pauses
    WHERE tenant = :tenant::text AND tenant <> ''
    ORDER BY queue LIMIT :rows_max::integer)
) p
ORDER BY p.queue, p.tenant LIMIT :rows_max::integer
