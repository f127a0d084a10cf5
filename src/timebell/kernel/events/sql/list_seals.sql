-- The seals of one tenant, or of all, in the order of the chains, each with the words of its event as they are now.
SELECT s.tenant, s.number, s.event_id, s.hash, e.id IS NOT NULL AS is_there,
    jsonb_build_array(e.id, e.tenant, e.name, e.subject, e.actor, e.data, e.correlation_id,
        extract(epoch FROM e.occurred_at), extract(epoch FROM e.recorded_at))::text AS content
FROM timebell.event_seals s LEFT JOIN timebell.events e ON e.id = s.event_id
WHERE (s.tenant, s.number) > (:after_tenant::text, :after_number::bigint)
    AND (:tenant::text IS NULL OR s.tenant = :tenant::text)
ORDER BY s.tenant, s.number LIMIT :limit::integer
