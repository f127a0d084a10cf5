-- The rules of which any alert stands, one step along the index for each.
WITH RECURSIVE standing AS (
    (SELECT a.rule FROM timebell.alerts a WHERE a.closed_at IS NULL ORDER BY a.rule LIMIT 1)
    UNION ALL
    SELECT (SELECT a.rule FROM timebell.alerts a WHERE a.closed_at IS NULL AND a.rule > s.rule ORDER BY a.rule LIMIT 1)
    FROM standing s WHERE s.rule IS NOT NULL
)
SELECT s.rule FROM standing s WHERE s.rule IS NOT NULL
