-- Forgets what a recipient was told, and where. Ids and states stay, and so does what was sent when.
WITH notifications AS (
    UPDATE timebell_notify.notifications n
    SET context = '{}', mended = NULL, decisions = '[]', is_erased = true
    WHERE n.tenant = :tenant::text AND n.recipient_id = :recipient_id::uuid
), deliveries AS (
    UPDATE timebell_notify.deliveries d
    SET content = NULL, address = 'erased:' || d.id
    WHERE d.tenant = :tenant::text AND d.recipient_id = :recipient_id::uuid
    RETURNING d.id
), attempts AS (
    UPDATE timebell_notify.attempts t SET reason = NULL, detail = NULL
    FROM deliveries d
    WHERE t.tenant = :tenant::text AND t.delivery_id = d.id
), reports AS (
    UPDATE timebell_notify.provider_reports p SET body = '{}'
    FROM deliveries d
    WHERE p.delivery_id = d.id
)
DELETE FROM timebell_notify.inbox WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
