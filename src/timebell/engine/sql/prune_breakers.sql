-- Breakers whose time was over an hour ago: nobody has called since, or one call would have closed them or opened them again.
WITH gone AS (
    DELETE FROM timebell.breakers
    WHERE destination IN (
        SELECT destination FROM timebell.breakers
        WHERE open_until <= coalesce(:now::timestamptz, now()) - interval '1 hour'
        ORDER BY open_until LIMIT :limit::integer FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
