UPDATE timebell_notify.recent_sends s
SET sent_ats = w.sent_ats::timestamptz[]
FROM unnest(:tenants::text[], :recipient_ids::uuid[], :channels::text[], :sent_ats::text[])
    AS w(tenant, recipient_id, channel, sent_ats)
WHERE s.tenant = w.tenant AND s.recipient_id = w.recipient_id AND s.channel = w.channel
