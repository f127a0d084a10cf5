-- Somebody has seen to it; who was first stays. What no question closes is closed by that. No row: there is none.
WITH found AS (
    SELECT a.id, a.acknowledged_by IS NULL AS is_first, a.is_by_hand AND a.closed_at IS NULL AS is_closing
    FROM timebell.alerts a
    WHERE a.tenant BETWEEN :tenant::text AND :tenant::text AND a.id = :id::uuid AND a.opened_at IS NOT NULL
        AND (:sees_engine::boolean OR NOT a.is_of_engine)
    FOR UPDATE
)
UPDATE timebell.alerts a SET
    acknowledged_by = coalesce(a.acknowledged_by, :actor::text),
    acknowledged_at = coalesce(a.acknowledged_at, coalesce(:now::timestamptz, now())),
    closed_at = CASE WHEN f.is_closing THEN coalesce(:now::timestamptz, now()) ELSE a.closed_at END,
    -- Whoever acknowledges it knows that it is closed by that.
    told = CASE WHEN f.is_closing AND a.told = 'opening' THEN 'all' ELSE a.told END
FROM found f
WHERE a.tenant BETWEEN :tenant::text AND :tenant::text AND a.id = f.id
RETURNING a.id, a.rule, a.severity, a.app, a.subject, a.detail, a.opened_at, a.closed_at, a.acknowledged_by,
    f.is_first, f.is_closing
