-- Of several who bring one token at once, one after the other sees what became of it.
SELECT t.id, t.user_id, t.expires_at, t.created_at, t.used_at, t.used, coalesce(:now::timestamptz, now()) AS now
FROM marketplace.magic_link_tokens t
WHERE t.tenant = :tenant::text AND t.token_hash = :token_hash::bytea
FOR UPDATE
