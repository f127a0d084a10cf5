-- Keys that were revoked or have expired long ago, in real time as keys are. One that settings chose would be made anew by
-- whoever still has it there, so it stays revoked for ever.
WITH old AS MATERIALIZED (
    SELECT tenant, id FROM timebell_web.api_keys
    WHERE least(revoked_at, expires_at) < coalesce(:lease_now::timestamptz, now()) - :days::integer * interval '1 day'
        AND prefix <> :chosen
    ORDER BY least(revoked_at, expires_at) LIMIT :limit FOR UPDATE SKIP LOCKED
), pruned AS (
    DELETE FROM timebell_web.api_keys k USING old o WHERE k.tenant = o.tenant AND k.id = o.id RETURNING 1
)
SELECT count(*) AS pruned_count FROM pruned
