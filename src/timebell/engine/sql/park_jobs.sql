-- Out of the way of the reader, until the queue is resumed.
UPDATE timebell.jobs SET lane = 2
WHERE id = ANY(:ids::uuid[]) AND started_by IS NULL AND lane <> 2
RETURNING id
