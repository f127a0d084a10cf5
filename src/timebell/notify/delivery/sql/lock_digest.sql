-- A digest that is about to be told: whoever is joining it has done so when this answers. Once something of it has been
-- written for a provider or an inbox, it is told as it was written.
SELECT g.key, g.closes, g.template, g.is_sent_empty, g.closed_at,
    EXISTS (SELECT FROM timebell_notify.deliveries d WHERE d.tenant = g.tenant
        AND d.notification_id = :notification_id::uuid AND d.content IS NOT NULL) AS is_written
FROM timebell_notify.digests g
WHERE g.tenant = :tenant::text AND g.id = :id::uuid
FOR UPDATE OF g
