-- The alerts of a tenant in a state or in any, those that opened last first. Only so many rows are looked at; the one at which
-- looking stopped comes back too, so that the next page can go on from there.
WITH looked_at AS (
    (SELECT a.* FROM timebell.alerts a
    WHERE :state::text = 'open' AND a.tenant BETWEEN :tenant::text AND :tenant::text
        AND a.opened_at IS NOT NULL AND a.closed_at IS NULL AND (a.opened_at, a.id) < (
            (SELECT coalesce(:before_at::timestamptz, 'infinity')), (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')))
    ORDER BY a.opened_at DESC, a.id DESC LIMIT :look_max::integer)
    UNION ALL
    (SELECT a.* FROM timebell.alerts a
    WHERE :state::text IS DISTINCT FROM 'open' AND a.tenant BETWEEN :tenant::text AND :tenant::text
        AND a.opened_at IS NOT NULL AND (a.opened_at, a.id) < (
            (SELECT coalesce(:before_at::timestamptz, 'infinity')), (SELECT coalesce(:before::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')))
    ORDER BY a.opened_at DESC, a.id DESC LIMIT :look_max::integer)
), marked AS (
    SELECT l.id, l.rule, l.severity, l.app, l.subject, l.detail, l.opened_at, l.closed_at, l.acknowledged_by,
        (:sees_engine::boolean OR NOT l.is_of_engine) AND (:state::text IS DISTINCT FROM 'closed' OR l.closed_at IS NOT NULL)
            AS is_match,
        row_number() OVER (ORDER BY l.opened_at DESC, l.id DESC) = :look_max::integer AS is_end
    FROM looked_at l
)
SELECT * FROM marked WHERE is_match OR is_end ORDER BY opened_at DESC, id DESC LIMIT :limit::integer + 1
