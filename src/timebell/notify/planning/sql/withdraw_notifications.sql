-- What was taken back before it was told; where it had been told in part, or may have been, that counts. What is being
-- told just now has the last word.
UPDATE timebell_notify.notifications n
SET state = coalesce((SELECT s.state FROM timebell_notify.deliveries d
        CROSS JOIN LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM timebell_notify.attempts t WHERE t.tenant = d.tenant
            AND t.delivery_id = d.id AND t.answer IS NULL) THEN 'uncertain' ELSE d.state END AS state) s
        WHERE d.tenant = n.tenant AND d.notification_id = n.id
            AND s.state IN ('delivered', 'sent', 'suppressed', 'uncertain')
        ORDER BY array_position(ARRAY['delivered', 'sent', 'suppressed', 'uncertain'], s.state) LIMIT 1), 'withdrawn'),
    reason = 'withdrawn', held_until = NULL, digest_id = NULL,
    settled_at = coalesce(:now::timestamptz, now())
WHERE n.tenant = :tenant::text AND n.id = ANY (:ids::uuid[]) AND n.settled_at IS NULL
