-- A digest looks back for two days at most.
DELETE FROM marketplace.search_alerts a
WHERE (a.tenant, a.search_id, a.worker_id) IN (
    SELECT o.tenant, o.search_id, o.worker_id FROM marketplace.search_alerts o
    WHERE o.alerted_at < coalesce(:now::timestamptz, now()) - interval '72 hours'
    ORDER BY o.alerted_at LIMIT :limit::integer)
RETURNING a.search_id
