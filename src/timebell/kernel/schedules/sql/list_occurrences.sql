-- The occurrences of a schedule between two instants, past and future, in the order of time.
SELECT id, schedule_id, original_local, fold, local, occurs_at, adjusted, state, revision, timezone_version
FROM timebell.occurrences
WHERE schedule_id = :schedule_id::uuid AND tenant = :tenant::text
    AND (:from_at::timestamptz IS NULL OR occurs_at >= :from_at::timestamptz)
    AND (:before::timestamptz IS NULL OR occurs_at < :before::timestamptz)
    AND (:after_at::timestamptz IS NULL OR (occurs_at, id) > (:after_at::timestamptz, :after::uuid))
ORDER BY occurs_at, id LIMIT :limit::integer + 1
