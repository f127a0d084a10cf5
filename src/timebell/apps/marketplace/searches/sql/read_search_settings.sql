SELECT s.alerts_per_hour, s.in_quiet_hours, s.database_minutes, s.extension_minutes, s.zero_digests_max
FROM marketplace.search_settings s WHERE s.tenant = :tenant::text
