-- Who plans holds the rows of its timezones until it has committed. Who brings newer data waits for that, and then finds
-- every schedule that was planned with older data.
SELECT timezone, version, sha256, data_version FROM timebell.timezones
WHERE timezone = ANY(:timezones::text[])
ORDER BY timezone
FOR SHARE
