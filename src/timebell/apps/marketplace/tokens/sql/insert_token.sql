INSERT INTO marketplace.magic_link_tokens (tenant, id, user_id, token_hash, expires_at, created_at)
VALUES (:tenant::text, :id::uuid, :user_id::uuid, :token_hash::bytea,
    coalesce(:now::timestamptz, now()) + make_interval(mins => :minutes::integer), coalesce(:now::timestamptz, now()))
RETURNING id, user_id, expires_at, created_at, used_at
