-- A stretch of the audit trail in the order of writing: the events in it that have no seal, with the words that a seal is
-- made of, and the last one of it, whatever it has, for the next stretch. What is settled, nothing appears before any more.
SELECT e.tenant, e.id, e.written_in::text AS number, e.written_in < pg_snapshot_xmin(pg_current_snapshot()) AS is_settled,
    s.event_id IS NOT NULL AS is_sealed, e.place,
    CASE WHEN s.event_id IS NULL THEN jsonb_build_array(e.id, e.tenant, e.name, e.subject, e.actor, e.data,
        e.correlation_id, extract(epoch FROM e.occurred_at), extract(epoch FROM e.recorded_at))::text END AS content
FROM (
    SELECT w.*, row_number() OVER (ORDER BY w.written_in, w.id) AS place, count(*) OVER () AS looked_at_count
    FROM (
        SELECT * FROM timebell.events
        WHERE (written_in, id) > (:number::text::xid8, :id::uuid)
        ORDER BY written_in, id LIMIT :limit::integer
    ) w
) e LEFT JOIN timebell.event_seals s ON s.event_id = e.id
WHERE s.event_id IS NULL OR e.place = e.looked_at_count
ORDER BY e.place
