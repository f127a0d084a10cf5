-- Reports that came in long ago and that nobody has yet to apply.
WITH old AS MATERIALIZED (
    SELECT p.provider, p.report_id FROM timebell_notify.provider_reports p
    WHERE p.received_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
        AND p.applied IS NOT NULL
    ORDER BY p.received_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
), pruned AS (
    DELETE FROM timebell_notify.provider_reports p USING old o
    WHERE p.provider = o.provider AND p.report_id = o.report_id
    RETURNING 1
)
SELECT count(*) AS pruned_count FROM pruned
