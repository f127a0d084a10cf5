-- Of jobs under way, those that are still their node's and still wanted: it was not taken for dead, they were not given
-- to another, and nobody asked that they be cancelled, or stopped owing them. Nobody does until the transaction ends, since
-- whoever recovers jobs passes over what is locked, and whoever cancels them waits. One that a caller holds is passed over
-- here too, so that it does not hold up the others.
SELECT j.id, j.version
FROM unnest(:ids::uuid[], :versions::integer[]) AS r(id, version)
JOIN timebell.jobs j ON j.id = r.id AND j.version = r.version AND j.cancel_requested_at IS NULL
WHERE r.id NOT IN (SELECT c.job_id FROM timebell.cancel_requests c)
FOR KEY SHARE OF j SKIP LOCKED
