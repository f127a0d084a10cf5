-- Addresses of a recipient. One that it had already is taken for good again, whatever had become of it.
INSERT INTO timebell_notify.addresses AS a (tenant, id, recipient_id, kind, value, detail, verified_at, created_at)
SELECT :tenant::text, n.id, :recipient_id::uuid, n.kind, n.value, n.detail::jsonb, n.verified_at,
    coalesce(:now::timestamptz, now())
FROM unnest(:ids::uuid[], :kinds::text[], :values::text[], :details::text[], :verified_ats::timestamptz[])
    AS n(id, kind, value, detail, verified_at)
ON CONFLICT (tenant, recipient_id, kind, value) DO UPDATE
SET detail = excluded.detail, verified_at = coalesce(excluded.verified_at, a.verified_at), gone_at = NULL
RETURNING a.id
