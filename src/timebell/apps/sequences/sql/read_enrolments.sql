-- What some subjects have entered, in the order of their coming. What each version says is read apart.
SELECT e.subject, e.sequence_id, e.entry, e.version, e.event_at, e.ended_reason
FROM sequences.enrolments e
WHERE e.tenant = :tenant::text AND e.subject = ANY (:subjects::text[])
ORDER BY e.subject, e.created_at, e.sequence_id, e.entry
