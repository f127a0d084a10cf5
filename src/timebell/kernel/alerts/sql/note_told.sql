-- What operators have been told: that it opened, or everything. That a warning closed is not told.
UPDATE timebell.alerts a SET told = CASE
    WHEN a.told = 'nothing' AND (a.closed_at IS NULL OR a.severity = 'critical') THEN 'opening' ELSE 'all' END
WHERE a.id = ANY(:ids::uuid[]) AND a.told <> 'all'
RETURNING a.id
