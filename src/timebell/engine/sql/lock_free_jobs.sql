-- Those of the jobs that no other transaction holds, so that one caller's open transaction does not hold up the rest.
SELECT id FROM timebell.jobs WHERE id = ANY(:ids::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED
