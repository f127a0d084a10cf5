-- Occurrences that were published. One that is published again, since nobody knew that it had been, counts again only if
-- nothing for its instant or a later one was counted; and what begins anew at the instant that was published last has the
-- same name at the receiver's, and counts once. A request that another transaction holds is left out, so that nobody waits
-- for it, and is named: it is counted later.
WITH fired AS (
    SELECT * FROM unnest(:tenants::text[], :ids::text[], :due_ats::timestamptz[], :repeated::boolean[])
        AS w(tenant, id, due_at, is_repeated)
), locked AS MATERIALIZED (
    SELECT r.tenant, r.id FROM scheduler.requests r
    WHERE (r.tenant, r.id) IN (SELECT f.tenant, f.id FROM fired f) FOR UPDATE SKIP LOCKED
), counted AS (
    UPDATE scheduler.requests r
    SET fired_count = r.fired_count + (
            SELECT count(*) FROM fired f WHERE f.tenant = r.tenant AND f.id = r.id
                AND (r.fired_for IS NULL OR f.due_at > r.fired_for OR NOT f.is_repeated AND f.due_at <> r.fired_for)),
        fired_for = greatest(r.fired_for, (SELECT max(f.due_at) FROM fired f WHERE f.tenant = r.tenant AND f.id = r.id))
    FROM locked l WHERE r.tenant = l.tenant AND r.id = l.id
)
SELECT r.tenant, r.id FROM scheduler.requests r
WHERE (r.tenant, r.id) IN (SELECT f.tenant, f.id FROM fired f)
    AND NOT EXISTS (SELECT FROM locked l WHERE l.tenant = r.tenant AND l.id = r.id)
