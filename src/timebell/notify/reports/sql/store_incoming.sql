-- Keeps reports as they came in, for a node to apply. Whose they are is not known here, and the role that stores them cannot
-- see them again, so nothing is returned; a report that came before stays as it is.
INSERT INTO timebell_notify.provider_reports (provider, report_id, provider_id, kind, occurred_at, received_at, body)
SELECT :provider::text, r.report_id, r.provider_id, r.kind, r.occurred_at, coalesce(:now::timestamptz, now()), r.body::jsonb
FROM unnest(:report_ids::text[], :provider_ids::text[], :kinds::text[], :occurred_ats::timestamptz[], :bodies::text[])
    AS r(report_id, provider_id, kind, occurred_at, body)
ORDER BY r.report_id
ON CONFLICT DO NOTHING
