-- Agendas of subjects that had none. The answer is about those that had one already, for which `lock_agenda` must be asked;
-- there are seldom any.
WITH begun AS (
    INSERT INTO timebell.agendas (tenant, subject, anchor, updated_at)
    SELECT a.tenant, a.subject, a.anchor, coalesce(:now::timestamptz, now())
    FROM unnest(:tenants::text[], :subjects::text[], :anchors::timestamptz[]) AS a(tenant, subject, anchor)
    ON CONFLICT (tenant, subject) DO NOTHING
    RETURNING tenant, subject
), known AS (
    SELECT a.tenant, a.subject FROM unnest(:tenants::text[], :subjects::text[]) AS a(tenant, subject)
    EXCEPT SELECT tenant, subject FROM begun
)
SELECT coalesce(:now::timestamptz, now()) AS now, coalesce(array_agg(tenant), '{}') AS tenants,
    coalesce(array_agg(subject), '{}') AS subjects
FROM known
