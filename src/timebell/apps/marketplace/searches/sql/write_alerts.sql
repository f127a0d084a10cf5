-- One row for a search and a worker: what was before is older than a day.
INSERT INTO marketplace.search_alerts (tenant, search_id, worker_id, user_id, event, state, listed_at, alerted_at)
SELECT :tenant::text, a.search_id, :worker_id::uuid, a.user_id, :event::uuid, a.state, :listed_at::timestamptz,
    coalesce(:now::timestamptz, now())
FROM unnest(:search_ids::uuid[], :user_ids::uuid[], :states::text[]) AS a (search_id, user_id, state)
ON CONFLICT (tenant, search_id, worker_id) DO UPDATE
SET event = excluded.event, state = excluded.state, listed_at = excluded.listed_at, alerted_at = excluded.alerted_at
