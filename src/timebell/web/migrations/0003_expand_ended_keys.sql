-- phase: expand
-- Keys that are good for nothing any more, by when that began.

CREATE INDEX IF NOT EXISTS api_keys_ended ON timebell_web.api_keys ((least(revoked_at, expires_at)))
    WHERE least(revoked_at, expires_at) IS NOT NULL;
