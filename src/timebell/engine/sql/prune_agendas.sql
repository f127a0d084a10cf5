-- Agendas that nothing has touched for long, that owe nothing and have paid nothing lately, with what they remember.
-- Old ones that still owe may be millions: a bounded number is looked at, past where the last look ended.
WITH looked_at AS MATERIALIZED (
    SELECT a.tenant, a.subject, a.updated_at FROM timebell.agendas a
    WHERE a.updated_at > :after::timestamptz
        AND a.updated_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY a.updated_at LIMIT :limit::integer
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
SELECT count(*) AS looked_at_count, max(updated_at) AS last_at FROM looked_at
