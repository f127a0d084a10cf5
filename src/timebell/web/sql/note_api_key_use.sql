-- The day a key was last used: a write a day, not one a request.
UPDATE timebell_web.api_keys
SET last_used_on = (coalesce(:lease_now::timestamptz, now()) AT TIME ZONE 'UTC')::date
WHERE tenant = :tenant AND id = :id
