-- Of the last occurrences of a schedule before an instant, those that still owe something: it is due, and waits or runs.
SELECT o.id, o.schedule_id, o.original_local, o.fold, o.local, o.occurs_at, o.adjusted, o.state, o.revision,
    o.timezone_version
FROM (
    SELECT * FROM timebell.occurrences
    WHERE schedule_id = :schedule_id::uuid AND tenant = :tenant::text AND occurs_at < :before::timestamptz
    ORDER BY occurs_at DESC, id DESC LIMIT :looked_at::integer
) o
WHERE o.state = 'planned' AND EXISTS (
    SELECT FROM timebell.jobs j WHERE j.tenant = :tenant::text AND j.subject = 'occurrence:' || o.id)
ORDER BY o.occurs_at, o.id
