-- Keeps what a provider reported, each report once, and answers with those that are new. One that named no delivery when
-- it first came is new if it names one now.
INSERT INTO timebell_notify.provider_reports AS p (provider, report_id, tenant, delivery_id, provider_id, kind,
    occurred_at, received_at, applied, body)
SELECT :provider::text, r.report_id, :tenant::text, r.delivery_id, r.provider_id, r.kind, r.occurred_at,
    coalesce(:now::timestamptz, now()), 'unknown', r.body::jsonb
FROM unnest(:report_ids::text[], :delivery_ids::uuid[], :provider_ids::text[], :kinds::text[],
    :occurred_ats::timestamptz[], :bodies::text[]) AS r(report_id, delivery_id, provider_id, kind, occurred_at, body)
ORDER BY r.report_id
ON CONFLICT (provider, report_id) DO UPDATE
SET tenant = EXCLUDED.tenant, delivery_id = EXCLUDED.delivery_id, received_at = EXCLUDED.received_at,
    body = EXCLUDED.body
WHERE p.delivery_id IS NULL AND EXCLUDED.delivery_id IS NOT NULL
RETURNING p.report_id
