-- Everything that decides about each notification, as of one instant, in the order asked for. The columns of the
-- recipient are those of read_recipient.sql; they are null where there is none.
SELECT coalesce(:now::timestamptz, now()) AS now, n.state, n.settled_at IS NOT NULL AS is_settled, n.template_version,
    n.mended,
    r.id, r.tenant, r.name, r.external_id, r.language, r.timezone, r.channel_preference, r.whatsapp_opt_in,
    r.quiet_hours, r.revision, r.created_at, r.updated_at, r.erased_at,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'kind', a.kind, 'value', a.value, 'detail', a.detail,
            'verified_at', a.verified_at, 'gone_at', a.gone_at) ORDER BY a.created_at, a.id), '[]')
        FROM timebell_notify.addresses a
        WHERE a.tenant = o.tenant AND a.recipient_id = o.recipient_id) AS addresses,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('topic', x.topic, 'channel', x.channel)), '[]')
        FROM timebell_notify.opt_outs x
        WHERE x.tenant = o.tenant AND x.recipient_id = o.recipient_id) AS opt_outs,
    (SELECT jsonb_agg(jsonb_build_array(s.channel, s.address, s.class))
        FROM timebell_notify.addresses a JOIN timebell_notify.suppressions s
            ON s.tenant = a.tenant AND s.address = a.value
            AND s.channel = ANY (CASE a.kind WHEN 'phone' THEN ARRAY['sms', 'whatsapp'] ELSE ARRAY[a.kind] END)
        WHERE a.tenant = o.tenant AND a.recipient_id = o.recipient_id) AS suppressed,
    (SELECT jsonb_agg(jsonb_build_object('id', d.id, 'channel', d.channel, 'provider', d.provider,
            'address', d.address, 'state', d.state, 'reason', d.reason, 'failure_count', d.failure_count,
            'rate_limited_count', d.rate_limited_count, 'number', d.attempt_count, 'provider_id', d.provider_id, 'created_at', d.created_at,
            'updated_at', d.updated_at, 'language', d.language, 'content', d.content,
            'is_open', EXISTS (SELECT FROM timebell_notify.attempts t WHERE t.tenant = d.tenant
                AND t.delivery_id = d.id AND t.number = d.attempt_count AND t.answer IS NULL))
            ORDER BY d.created_at, d.id)
        FROM timebell_notify.deliveries d
        WHERE d.tenant = o.tenant AND d.notification_id = o.id) AS deliveries,
    p.policy, p.revision AS policy_revision,
    (SELECT jsonb_agg(jsonb_build_array(s.kind, s.value)) FROM timebell_notify.approved_senders s
        WHERE s.tenant = o.tenant AND p.policy -> 'sender' IS NOT NULL) AS senders
FROM unnest(:tenants::text[], :ids::uuid[], :recipient_ids::uuid[]) WITH ORDINALITY
    AS o(tenant, id, recipient_id, position)
LEFT JOIN timebell_notify.notifications n ON n.tenant = o.tenant AND n.id = o.id
LEFT JOIN timebell_notify.recipients r ON r.tenant = o.tenant AND r.id = o.recipient_id
LEFT JOIN timebell_notify.policies p ON p.tenant = o.tenant
ORDER BY o.position
