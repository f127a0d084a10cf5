INSERT INTO marketplace.saved_searches (tenant, id, user_id, criteria, trade, zip_from, zip_to, skills, rate_max, since,
    before, trade_key, zip_key, skill_key, instant_enabled, digest_enabled, send_empty_digest, channels, timezone,
    created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :user_id::uuid, :criteria::jsonb, :trade::text, :zip_from::text, :zip_to::text,
    :skills::text[], :rate_max::bigint, :since::timestamptz, :before::timestamptz, :trade_key::text, :zip_key::text,
    :skill_key::text, :instant::boolean, :digest::boolean, :send_empty_digest::boolean, :channels::text[],
    :timezone::text, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
