-- A channel that was considered and not used, with the reason.
INSERT INTO timebell_notify.deliveries AS d (tenant, id, notification_id, recipient_id, channel, provider, address,
    state, reason, created_at, updated_at)
SELECT s.tenant, s.id, s.notification_id, s.recipient_id, s.channel, '', '', 'skipped', s.reason,
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :ids::uuid[], :notification_ids::uuid[], :recipient_ids::uuid[], :channels::text[],
    :reasons::text[]) AS s(tenant, id, notification_id, recipient_id, channel, reason)
ON CONFLICT (tenant, notification_id, channel, provider, address) DO UPDATE
SET reason = EXCLUDED.reason, updated_at = EXCLUDED.updated_at
