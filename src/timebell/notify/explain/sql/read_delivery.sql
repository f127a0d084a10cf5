-- One delivery, whole, with its attempts.
SELECT (to_jsonb(d) || jsonb_build_object(
    'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.number), '[]')
        FROM timebell_notify.attempts t WHERE t.tenant = d.tenant AND t.delivery_id = d.id)))::text AS line
FROM timebell_notify.deliveries d
WHERE d.tenant = :tenant::text AND d.id = :id::uuid
