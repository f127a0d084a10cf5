-- What was seen, was over before it opened.
DELETE FROM timebell.alerts a
WHERE a.tenant = :tenant::text AND a.id = ANY(:ids::uuid[]) AND a.opened_at IS NULL
RETURNING a.id
