-- The addresses of a recipient that is erased stay suppressed, but cannot be read any more: a hash stands for each. One
-- that another recipient has too is left as it is.
WITH hidden AS (
    DELETE FROM timebell_notify.suppressions s
    USING timebell_notify.addresses a
    WHERE a.tenant = :tenant::text AND a.recipient_id = :recipient_id::uuid AND s.tenant = a.tenant
        AND s.address = a.value
        AND s.channel = ANY (CASE a.kind WHEN 'phone' THEN ARRAY['sms', 'whatsapp'] ELSE ARRAY[a.kind] END)
        AND NOT EXISTS (SELECT FROM timebell_notify.addresses other WHERE other.tenant = a.tenant
            AND other.value = a.value AND other.recipient_id <> a.recipient_id)
    RETURNING s.tenant, s.channel, s.address, s.class, s.reason, s.source, s.created_at
)
INSERT INTO timebell_notify.suppressions (tenant, channel, address, class, reason, source, created_at)
SELECT tenant, channel, 'sha256:' || encode(sha256(convert_to(tenant || chr(10) || channel || chr(10) || address,
    'UTF8')), 'hex'), class, reason, source, created_at
FROM hidden
ON CONFLICT DO NOTHING
RETURNING address
