-- What was kept from leaving, the newest first, and one more than asked for if there are more.
SELECT id, channel, address, subject, body, content::text AS content, captured_at, template, recipient_id,
    notification_id, delivery_id, reason
FROM timebell_notify.outbox
WHERE tenant = :tenant::text AND id < (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    AND (:recipient_id::uuid IS NULL OR recipient_id = :recipient_id::uuid)
    AND (:channel::text IS NULL OR channel = :channel::text)
ORDER BY id DESC LIMIT :limit::integer + 1
