-- Takes slots that nobody owns. One whose last owner did not release it was abandoned: what that owner ran there
-- may be why it died.
WITH free AS (
    SELECT slot, owner FROM timebell.slots
    WHERE slot = ANY(:slots::smallint[])
        AND (owner IS NULL OR NOT EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = owner))
    ORDER BY slot FOR UPDATE
)
UPDATE timebell.slots s SET owner = :incarnation::bigint, epoch = s.epoch + 1
FROM free f
WHERE s.slot = f.slot AND EXISTS (SELECT FROM timebell.nodes n WHERE n.incarnation = :incarnation::bigint)
RETURNING s.slot, s.epoch, f.owner AS abandoned_by
