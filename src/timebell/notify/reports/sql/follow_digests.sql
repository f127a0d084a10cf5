-- What is reported of a digest that was told is so of everything in it.
UPDATE timebell_notify.notifications n
SET state = r.state, reason = CASE WHEN r.state IN ('sent', 'delivered') THEN 'in_digest' ELSE r.reason END
FROM unnest(:ids::uuid[], :states::text[], :reasons::text[]) AS r(id, state, reason)
JOIN timebell_notify.digests g ON g.tenant = :tenant::text AND g.notification_id = r.id
WHERE n.tenant = :tenant::text AND n.digest_id = g.id AND n.settled_at IS NOT NULL AND n.state <> 'withdrawn'
