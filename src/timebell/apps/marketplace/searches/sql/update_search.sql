-- A search as it is to be from now on. Whoever changes what it asks for, or begins it anew, begins to count anew.
UPDATE marketplace.saved_searches
SET criteria = :criteria::jsonb, trade = :trade::text, zip_from = :zip_from::text, zip_to = :zip_to::text,
    skills = :skills::text[], rate_max = :rate_max::bigint, since = :since::timestamptz, before = :before::timestamptz,
    trade_key = :trade_key::text, zip_key = :zip_key::text, skill_key = :skill_key::text, is_active = :is_active::boolean,
    instant_enabled = :instant::boolean, digest_enabled = :digest::boolean,
    send_empty_digest = :send_empty_digest::boolean, channels = :channels::text[], timezone = :timezone::text,
    zero_streak = CASE WHEN criteria = :criteria::jsonb AND is_active THEN zero_streak ELSE 0 END,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid
