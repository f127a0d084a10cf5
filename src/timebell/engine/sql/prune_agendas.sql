-- Agendas that nothing has touched for long, that owe nothing and have paid nothing lately, with what they remember.
-- Old ones that still owe may be millions: a bounded number is looked at, past where the last look ended. Many may
-- have been touched in one transaction, so an instant alone would not say where that was.
WITH looked_at AS MATERIALIZED (
    SELECT a.tenant, a.subject, a.updated_at FROM timebell.agendas a
    WHERE (a.updated_at, a.tenant, a.subject)
            > (:after::timestamptz, :after_tenant::text, :after_subject::text)
        AND a.updated_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY a.updated_at, a.tenant, a.subject LIMIT :limit::integer
), old AS (
    SELECT a.tenant, a.subject FROM looked_at l JOIN timebell.agendas a USING (tenant, subject)
    WHERE a.updated_at = l.updated_at
        AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = a.tenant AND j.subject = a.subject)
        AND NOT EXISTS (SELECT FROM timebell.agenda_done d WHERE d.tenant = a.tenant AND d.subject = a.subject
            AND d.finished_at >= coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day')
    FOR UPDATE OF a SKIP LOCKED
), forgotten AS (
    DELETE FROM timebell.agenda_done d USING old o WHERE d.tenant = o.tenant AND d.subject = o.subject
), pruned AS (
    DELETE FROM timebell.agendas a USING old o WHERE a.tenant = o.tenant AND a.subject = o.subject
)
SELECT updated_at, tenant, subject, count(*) OVER () AS looked_at_count FROM looked_at
ORDER BY updated_at DESC, tenant DESC, subject DESC LIMIT 1
