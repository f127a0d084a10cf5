-- Timezones that nobody has planned in yet; not where anybody has newer data.
INSERT INTO timebell.timezones (timezone, version, sha256, data_version, updated_at)
SELECT t.timezone, :timezone_version::text, t.sha256, :timezone_version::text, coalesce(:now::timestamptz, now())
FROM unnest(:timezones::text[], :sha256s::text[]) AS t(timezone, sha256)
WHERE NOT EXISTS (SELECT FROM timebell.timezones AS newer WHERE newer.version > :timezone_version::text)
ORDER BY t.timezone
ON CONFLICT (timezone) DO NOTHING
