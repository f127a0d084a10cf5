-- Agendas of subjects that had none. What does not come back had one already, and `lock_agenda` must be asked for it.
INSERT INTO timebell.agendas (tenant, subject, anchor, updated_at)
SELECT a.tenant, a.subject, a.anchor, coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :subjects::text[], :anchors::timestamptz[]) AS a(tenant, subject, anchor)
ON CONFLICT (tenant, subject) DO NOTHING
RETURNING tenant, subject, updated_at AS now
