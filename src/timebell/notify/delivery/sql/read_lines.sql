-- The first of each tenant that waits, with the tenants that had no turn for longest; not those that were tried in vain. A
-- tenant of which so many were called and have not come has its turn again when they have: all at once, they would keep the
-- next tenant waiting.
WITH RECURSIVE waiting AS (
    (SELECT w.tenant FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text AND w.called_at IS NULL ORDER BY w.tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT w.tenant FROM timebell_notify.provider_waits w
        WHERE w.provider = :provider::text AND w.called_at IS NULL AND w.tenant > before.tenant
        ORDER BY w.tenant LIMIT 1)
    FROM waiting before WHERE before.tenant IS NOT NULL
)
SELECT t.tenant, t.last_turn, f.lane, f.notification_id
FROM (
    SELECT waiting.tenant, coalesce(turns.last_turn, 0) AS last_turn
    FROM waiting
    LEFT JOIN timebell_notify.provider_turns turns ON turns.provider = :provider::text AND turns.tenant = waiting.tenant
    WHERE waiting.tenant IS NOT NULL AND :called_max::integer > (
        SELECT count(*) FROM timebell_notify.provider_waits c
        WHERE c.provider = :provider::text AND c.called_at IS NOT NULL AND c.tenant = waiting.tenant)
    ORDER BY last_turn, waiting.tenant LIMIT :tenants_max::integer
) t
CROSS JOIN (VALUES (0), (1)) AS l(lane)
CROSS JOIN LATERAL (
    SELECT w.lane, w.notification_id, w.asked_at FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text AND w.called_at IS NULL AND w.tenant = t.tenant AND w.lane = l.lane
        AND NOT w.notification_id = ANY (:tried::uuid[])
        AND (SELECT true FROM timebell_notify.owed o WHERE o.tenant = w.tenant AND o.id = w.notification_id
            AND NOT o.is_dead LIMIT 1)
    ORDER BY w.asked_at, w.notification_id LIMIT :each::integer
) f
ORDER BY f.asked_at, f.notification_id
