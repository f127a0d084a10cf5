-- No row comes back where it was approved before, or where the tenant has as many as it may.
INSERT INTO timebell_notify.approved_senders (tenant, kind, value, actor, approved_at)
SELECT :tenant::text, :kind::text, :value::text, :actor::text, coalesce(:now::timestamptz, now())
WHERE (SELECT count(*) FROM timebell_notify.approved_senders s WHERE s.tenant = :tenant::text) < :most::integer
ON CONFLICT (tenant, kind, value) DO NOTHING
RETURNING kind, value, actor, approved_at
