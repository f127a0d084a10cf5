-- The addresses of a recipient that is erased stay suppressed, but cannot be read any more: a hash stands for each, also
-- for those that it had before and was told at. One that another recipient has too is left as it is.
WITH hidden AS (
    DELETE FROM timebell_notify.suppressions s
    USING (SELECT value AS address FROM timebell_notify.addresses
        WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
        UNION SELECT address FROM timebell_notify.deliveries
        WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid) own
    WHERE s.tenant = :tenant::text AND s.channel = ANY (ARRAY['email', 'sms', 'whatsapp', 'push', 'webhook'])
        AND s.address = own.address
        AND NOT EXISTS (SELECT FROM timebell_notify.addresses other WHERE other.tenant = s.tenant
            AND other.value = s.address AND other.recipient_id <> :recipient_id::uuid)
    RETURNING s.tenant, s.channel, s.address, s.class, s.reason, s.source, s.created_at
)
INSERT INTO timebell_notify.suppressions (tenant, channel, address, class, reason, source, created_at)
SELECT tenant, channel, 'sha256:' || encode(sha256(convert_to(tenant || chr(10) || channel || chr(10) || address,
    'UTF8')), 'hex'), class, reason, source, created_at
FROM hidden
ON CONFLICT DO NOTHING
RETURNING address
