-- What is null stays as it is.
UPDATE marketplace.workers
SET state = coalesce(:state::text, state), trade = coalesce(:trade::text, trade), zip = coalesce(:zip::text, zip),
    skills = coalesce(:skills::text[], skills), hourly_rate = coalesce(:hourly_rate::bigint, hourly_rate),
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
