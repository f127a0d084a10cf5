DELETE FROM marketplace.alert_skips k
WHERE (k.tenant, k.id) IN (
    SELECT o.tenant, o.id FROM marketplace.alert_skips o
    WHERE o.skipped_at < coalesce(:now::timestamptz, now()) - make_interval(days => :days::integer)
    ORDER BY o.skipped_at LIMIT :limit::integer)
RETURNING k.id
