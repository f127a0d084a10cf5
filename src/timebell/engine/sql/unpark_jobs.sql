-- Back to their lanes, a bounded number at a time, once nothing pauses them.
UPDATE timebell.jobs j SET lane = CASE j.urgency WHEN 'critical' THEN 0 ELSE 1 END
WHERE j.id IN (
    SELECT p.id
    FROM unnest(:slots::smallint[]) AS w(slot) CROSS JOIN LATERAL (
        SELECT p.id FROM timebell.jobs p
        WHERE p.slot = w.slot AND p.lane = 2 AND NOT EXISTS (
            SELECT FROM timebell.queue_pauses q WHERE q.queue = p.queue AND q.tenant IN ('', p.tenant))
        ORDER BY p.run_at, p.id LIMIT :limit::integer FOR UPDATE SKIP LOCKED
    ) p LIMIT :limit::integer
)
RETURNING j.slot, j.run_at
