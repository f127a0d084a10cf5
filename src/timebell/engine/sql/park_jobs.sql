-- Out of the way of the reader, until the queue is resumed. A row that a caller holds is left for the next look.
UPDATE timebell.jobs SET lane = 2
WHERE id = ANY(ARRAY(SELECT id FROM timebell.jobs WHERE id = ANY(:ids::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED))
    AND started_by IS NULL AND lane <> 2
    AND (slot = ANY(ARRAY(
        SELECT o.slot FROM unnest(:slots::smallint[], :epochs::bigint[]) AS w(slot, epoch)
        JOIN timebell.slots o ON o.slot = w.slot AND o.epoch = w.epoch AND o.owner = :incarnation::bigint))
        OR slot = ANY(ARRAY(
        SELECT v.slot FROM unnest(:visited_slots::smallint[], :visited_epochs::bigint[]) AS w(slot, epoch)
        JOIN timebell.slots v ON v.slot = w.slot AND v.epoch = w.epoch FOR SHARE OF v)))
RETURNING id
