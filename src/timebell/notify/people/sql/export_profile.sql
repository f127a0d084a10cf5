-- Who a recipient is, whole but for the secrets of its addresses, which are keys and say nothing about it.
SELECT (to_jsonb(r) || jsonb_build_object(
    'addresses', (SELECT coalesce(jsonb_agg(to_jsonb(a) - 'detail' ORDER BY a.id), '[]')
        FROM timebell_notify.addresses a WHERE a.tenant = r.tenant AND a.recipient_id = r.id),
    'opt_outs', (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.topic, o.channel), '[]')
        FROM timebell_notify.opt_outs o WHERE o.tenant = r.tenant AND o.recipient_id = r.id),
    'suppressions', (SELECT coalesce(jsonb_agg(DISTINCT to_jsonb(s)), '[]')
        FROM timebell_notify.addresses a JOIN timebell_notify.suppressions s
            ON s.tenant = a.tenant AND s.address = a.value
            AND s.channel = ANY (CASE a.kind WHEN 'phone' THEN ARRAY['sms', 'whatsapp'] ELSE ARRAY[a.kind] END)
        WHERE a.tenant = r.tenant AND a.recipient_id = r.id),
    'recent_sends', (SELECT coalesce(jsonb_agg(to_jsonb(c) ORDER BY c.channel), '[]')
        FROM timebell_notify.recent_sends c WHERE c.tenant = r.tenant AND c.recipient_id = r.id),
    'digests', (SELECT coalesce(jsonb_agg(to_jsonb(g) ORDER BY g.id), '[]')
        FROM (SELECT * FROM timebell_notify.digests g
            WHERE g.tenant = r.tenant AND g.recipient_id = r.id ORDER BY g.id DESC LIMIT 1000) g)))::text AS profile
FROM timebell_notify.recipients r
WHERE r.tenant = :tenant::text AND r.id = :id::uuid AND r.erased_at IS NULL
