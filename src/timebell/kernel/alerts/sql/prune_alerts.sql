-- Alerts that closed long ago, a few at a time.
WITH old AS (
    SELECT a.id FROM timebell.alerts a
    WHERE a.closed_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY a.closed_at, a.id LIMIT :limit::integer
)
DELETE FROM timebell.alerts a USING old o WHERE a.id = o.id RETURNING a.id
