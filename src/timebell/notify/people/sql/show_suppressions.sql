-- Addresses that come to a recipient again are suppressed again under their own name, if an erasure had hidden that.
WITH shown AS (
    DELETE FROM timebell_notify.suppressions s
    USING unnest(:channels::text[], :addresses::text[]) AS n(channel, address)
    WHERE s.tenant = :tenant::text AND s.channel = n.channel AND s.address = 'sha256:' || encode(sha256(convert_to(
        :tenant::text || chr(10) || n.channel || chr(10) || n.address, 'UTF8')), 'hex')
    RETURNING s.tenant, s.channel, n.address, s.class, s.reason, s.source, s.created_at
)
INSERT INTO timebell_notify.suppressions (tenant, channel, address, class, reason, source, created_at)
SELECT tenant, channel, address, class, reason, source, created_at FROM shown
ON CONFLICT DO NOTHING
RETURNING address
