-- Back to their lanes, a bounded number at a time, once nothing pauses them and the node holds not their queue, in the order
-- of their time over all slots: what is younger than the last that was looked at in a slot with more may have older ones
-- behind that, and waits for the next look. A row that a caller holds stays; it is named all the same, so that it is asked
-- for again. In a slot of another node only the named kinds are meant, and in one's own not those that others visit it for:
-- what they hold is theirs to bring back.
WITH looked_at AS MATERIALIZED (
    SELECT p.id, p.slot, p.run_at, p.place
    FROM unnest(:slots::smallint[], :visited_kinds::text[]) AS w(slot, kinds) CROSS JOIN LATERAL (
        SELECT p.id, p.slot, p.run_at, row_number() OVER (ORDER BY p.run_at, p.id) AS place FROM timebell.jobs p
        WHERE p.slot = w.slot AND p.lane = 2 AND p.queue <> ALL(:held::text[]) AND NOT EXISTS (
            SELECT FROM timebell.queue_pauses q WHERE q.queue = p.queue AND q.tenant IN ('', p.tenant))
            AND CASE WHEN w.kinds IS NULL THEN p.kind <> ALL(:left_kinds::text[])
                ELSE strpos(w.kinds, chr(31) || p.kind || chr(31)) > 0 END
        ORDER BY p.run_at, p.id LIMIT :per_slot::integer
    ) p
), parked AS MATERIALIZED (
    SELECT l.id, l.slot, l.run_at FROM looked_at l
    WHERE l.run_at <= coalesce((SELECT min(c.run_at) FROM looked_at c WHERE c.place = :per_slot::integer), 'infinity')
    ORDER BY l.run_at, l.id LIMIT :limit::integer
), back AS (
    UPDATE timebell.jobs j SET lane = CASE j.urgency WHEN 'critical' THEN 0 ELSE 1 END
    WHERE j.id = ANY(ARRAY(
            SELECT f.id FROM timebell.jobs f WHERE f.id = ANY(ARRAY(SELECT id FROM parked))
            ORDER BY f.id FOR UPDATE SKIP LOCKED))
        AND j.lane = 2
    RETURNING j.id
)
SELECT p.slot, p.run_at, b.id IS NOT NULL AS is_back
FROM parked p LEFT JOIN back b ON b.id = p.id
ORDER BY p.run_at, p.id
