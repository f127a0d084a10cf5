-- Of jobs under way, those that are still their node's: it was not taken for dead, and they were not given to another.
-- Nobody can until the transaction ends, since whoever recovers jobs passes over what is locked. One that a caller
-- holds is passed over here too, so that it does not hold up the others.
SELECT j.id, j.version
FROM unnest(:ids::uuid[], :versions::integer[]) AS r(id, version)
JOIN timebell.jobs j ON j.id = r.id AND j.version = r.version
FOR KEY SHARE OF j SKIP LOCKED
