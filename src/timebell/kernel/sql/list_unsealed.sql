-- Events that have no seal yet, from an id on, with the words that a seal is made of.
SELECT e.tenant, e.id,
    jsonb_build_array(e.id, e.tenant, e.name, e.subject, e.actor, e.data, e.correlation_id,
        extract(epoch FROM e.occurred_at), extract(epoch FROM e.recorded_at))::text AS content
FROM timebell.events e
WHERE e.id >= :since::uuid AND NOT EXISTS (SELECT FROM timebell.event_seals s WHERE s.event_id = e.id)
ORDER BY e.id LIMIT :limit::integer
