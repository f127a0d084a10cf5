-- What is null stays as it is. Whoever becomes listed is new from then on.
UPDATE marketplace.workers
SET state = coalesce(:state::text, state), trade = coalesce(:trade::text, trade), zip = coalesce(:zip::text, zip),
    skills = coalesce(:skills::text[], skills), hourly_rate = coalesce(:hourly_rate::bigint, hourly_rate),
    listed_at = CASE WHEN :state::text = 'Listed' AND state <> 'Listed'
        THEN coalesce(:now::timestamptz, now()) ELSE listed_at END,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
