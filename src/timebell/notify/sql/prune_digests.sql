-- Digests that closed long ago, as far as neither what was told in them nor what told them is there any more; looked at as in
-- prune_withdrawn.
WITH looked_at AS MATERIALIZED (
    SELECT g.tenant, g.id, g.closes_at, g.notification_id FROM timebell_notify.digests g
    WHERE (g.closes_at, g.id) > (:after::timestamptz, :after_id::uuid)
        AND g.closes_at < coalesce(:now::timestamptz, now()) - :days::integer * interval '1 day'
    ORDER BY g.closes_at, g.id LIMIT :limit::integer
), pruned AS (
    DELETE FROM timebell_notify.digests g USING looked_at l
    WHERE g.tenant = l.tenant AND g.id = l.id
        AND NOT EXISTS (SELECT FROM timebell_notify.notifications n WHERE n.tenant = l.tenant AND n.digest_id = l.id)
        AND NOT EXISTS (SELECT FROM timebell_notify.notifications n
            WHERE n.tenant = l.tenant AND n.id = l.notification_id)
)
SELECT closes_at AS at, id, count(*) OVER () AS looked_at_count FROM looked_at ORDER BY closes_at DESC, id DESC LIMIT 1
