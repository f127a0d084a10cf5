-- A tenant's events after a place, in the order of their places, and one more than asked for if there are more. Those that
-- another transaction could still come before have to wait for it.
SELECT written_in::text AS number, id, name, subject, actor, data::text AS data, correlation_id, occurred_at,
    recorded_at
FROM timebell.events
WHERE tenant = :tenant::text AND (written_in, id) > (:number::text::xid8, :id::uuid)
    AND written_in < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY written_in, id LIMIT :limit::integer + 1
