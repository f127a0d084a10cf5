-- The timezones that anybody has planned in.
SELECT timezone, version, sha256 FROM timebell.timezones ORDER BY timezone
