-- When each recipient was last reached, locked so that two workers take turns in counting another.
INSERT INTO timebell_notify.recent_sends AS s (tenant, recipient_id, channel, sent_ats)
SELECT DISTINCT tenant, recipient_id, channel, '{}'::timestamptz[]
FROM unnest(:tenants::text[], :recipient_ids::uuid[], :channels::text[]) AS a(tenant, recipient_id, channel)
ORDER BY tenant, recipient_id, channel
ON CONFLICT (tenant, recipient_id, channel) DO UPDATE SET sent_ats = s.sent_ats
RETURNING s.tenant, s.recipient_id, s.channel, s.sent_ats, coalesce(:now::timestamptz, now()) AS now
