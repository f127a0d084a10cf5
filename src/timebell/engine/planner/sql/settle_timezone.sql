-- All schedules of a timezone were found that older data planned; unless newer data have come meanwhile.
UPDATE timebell.timezones
SET sha256 = :sha256::text, data_version = :timezone_version::text, updated_at = coalesce(:now::timestamptz, now())
WHERE timezone = :timezone::text AND version = :timezone_version::text
