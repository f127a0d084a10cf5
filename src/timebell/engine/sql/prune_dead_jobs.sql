WITH old AS (
    SELECT id FROM timebell.dead_jobs
    WHERE died_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY died_at, id LIMIT :limit::integer
)
DELETE FROM timebell.dead_jobs d USING old o WHERE d.id = o.id RETURNING d.id
