INSERT INTO marketplace.alert_skips (tenant, id, search_id, worker_id, sort, cause, duration, skipped_at)
SELECT :tenant::text, k.id, k.search_id, :worker_id::uuid, :sort::text, :cause::text, :duration::interval,
    coalesce(:now::timestamptz, now())
FROM unnest(:ids::uuid[], :search_ids::uuid[]) AS k (id, search_id)
