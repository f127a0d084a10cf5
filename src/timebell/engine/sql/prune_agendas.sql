-- Agendas that nothing has touched for long and that owe nothing, with what they remember.
WITH old AS (
    SELECT a.tenant, a.subject FROM timebell.agendas a
    WHERE a.updated_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
        AND NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = a.tenant AND j.subject = a.subject)
    ORDER BY a.updated_at LIMIT :limit::integer FOR UPDATE SKIP LOCKED
), forgotten AS (
    DELETE FROM timebell.agenda_done d USING old o WHERE d.tenant = o.tenant AND d.subject = o.subject
)
DELETE FROM timebell.agendas a USING old o WHERE a.tenant = o.tenant AND a.subject = o.subject
RETURNING a.subject
