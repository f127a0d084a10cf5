-- A name that was cancelled before it was asked for is free again after a day.
WITH old AS MATERIALIZED (
    SELECT t.tenant, t.id FROM scheduler.requests t
    WHERE t.due_at IS NULL AND t.recurrence IS NULL
        AND t.cancelled_at <= coalesce(:now::timestamptz, now()) - interval '24 hours'
    ORDER BY t.cancelled_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
), pruned AS (
    DELETE FROM scheduler.requests r USING old o WHERE r.tenant = o.tenant AND r.id = o.id RETURNING 1
)
SELECT count(*)::integer AS pruned_count FROM pruned
