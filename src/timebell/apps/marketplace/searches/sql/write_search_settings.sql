INSERT INTO marketplace.search_settings (tenant, alerts_per_hour, in_quiet_hours, database_minutes, extension_minutes,
    zero_digests_max, updated_at)
VALUES (:tenant::text, :alerts_per_hour::integer, :in_quiet_hours::text, :database_minutes::integer,
    :extension_minutes::integer, :zero_digests_max::integer, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO UPDATE
SET alerts_per_hour = excluded.alerts_per_hour, in_quiet_hours = excluded.in_quiet_hours,
    database_minutes = excluded.database_minutes, extension_minutes = excluded.extension_minutes,
    zero_digests_max = excluded.zero_digests_max, updated_at = excluded.updated_at
