-- Which of these recipients there are, with all that decides when to tell them; none of them is erased before the
-- transaction ends. The columns are those of read_recipient.sql.
SELECT r.id, r.tenant, r.external_id, r.name, r.language, r.timezone, r.channel_preference, r.whatsapp_opt_in,
    r.quiet_hours::text AS quiet_hours, r.revision, r.created_at, r.updated_at, r.erased_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'kind', a.kind, 'value', a.value, 'detail', a.detail,
            'verified_at', a.verified_at, 'gone_at', a.gone_at) ORDER BY a.created_at, a.id), '[]')::text
        FROM timebell_notify.addresses a
        WHERE r.quiet_hours IS NOT NULL AND a.tenant = r.tenant AND a.recipient_id = r.id) AS addresses,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('topic', o.topic, 'channel', o.channel)), '[]')::text
        FROM timebell_notify.opt_outs o
        WHERE r.quiet_hours IS NOT NULL AND o.tenant = r.tenant AND o.recipient_id = r.id) AS opt_outs,
    coalesce(:now::timestamptz, now()) AS now
FROM timebell_notify.recipients r
WHERE r.tenant = :tenant::text AND r.id = ANY (:ids::uuid[]) AND r.erased_at IS NULL
ORDER BY r.id
FOR KEY SHARE OF r
