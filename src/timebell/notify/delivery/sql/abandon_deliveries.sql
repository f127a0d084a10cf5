-- Ways that were tried and not taken, of notifications that came to their end without them.
UPDATE timebell_notify.deliveries d
SET state = a.state, reason = a.reason, updated_at = coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :notification_ids::uuid[], :states::text[], :reasons::text[])
    AS a(tenant, notification_id, state, reason)
WHERE d.tenant = a.tenant AND d.notification_id = a.notification_id AND d.state = 'pending'
