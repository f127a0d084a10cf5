-- The timezones that plans stand on, and the version of the data that each was planned with.
SELECT timezone, version, updated_at FROM timebell.timezones ORDER BY timezone LIMIT :rows_max::integer
