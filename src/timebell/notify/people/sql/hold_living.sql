-- Of recipients, those who were not erased; none of them is before the transaction ends. Whoever is being erased just now
-- is waited for.
SELECT r.id FROM timebell_notify.recipients r
WHERE r.tenant = :tenant::text AND r.id = ANY (:ids::uuid[]) AND r.erased_at IS NULL
ORDER BY r.id
FOR KEY SHARE OF r
