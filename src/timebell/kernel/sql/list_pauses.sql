-- The pauses in force, of everyone first. A tenant sees its own and everyone's; no tenant means an operator, who
-- sees the first so many.
SELECT p.queue, p.tenant, p.reason, p.actor, p.paused_at FROM timebell.queue_pauses p
WHERE :tenant::text IS NULL OR p.tenant IN ('', :tenant::text)
ORDER BY p.queue, p.tenant LIMIT :rows_max::integer
