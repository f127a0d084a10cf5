-- One recipient with its addresses and opt-outs, by its id or by what the tenant calls it.
SELECT r.id, r.tenant, r.external_id, r.name, r.language, r.timezone, r.channel_preference, r.whatsapp_opt_in,
    r.quiet_hours::text AS quiet_hours, r.revision, r.created_at, r.updated_at, r.erased_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'kind', a.kind, 'value', a.value, 'detail', a.detail,
            'verified_at', a.verified_at, 'gone_at', a.gone_at) ORDER BY a.created_at, a.id), '[]')::text
        FROM timebell_notify.addresses a WHERE a.tenant = r.tenant AND a.recipient_id = r.id) AS addresses,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('topic', o.topic, 'channel', o.channel)
            ORDER BY o.topic, o.channel), '[]')::text
        FROM timebell_notify.opt_outs o WHERE o.tenant = r.tenant AND o.recipient_id = r.id) AS opt_outs
FROM timebell_notify.recipients r
WHERE r.tenant = :tenant::text AND (r.id = :id::uuid OR r.external_id = :external_id::text)
