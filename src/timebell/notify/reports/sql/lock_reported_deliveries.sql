-- Where deliveries stand, which nobody else changes until the transaction ends.
SELECT d.id, d.notification_id, d.state, d.reason
FROM timebell_notify.deliveries d
WHERE d.tenant = :tenant::text AND d.id = ANY (:ids::uuid[])
ORDER BY d.id FOR UPDATE
