-- From here on nobody plans with older data. Waits for whoever does so at this moment.
UPDATE timebell.timezones
SET version = :timezone_version::text, updated_at = coalesce(:now::timestamptz, now())
WHERE timezone IN (
    SELECT timezone FROM timebell.timezones WHERE version < :timezone_version::text ORDER BY timezone FOR UPDATE
)
