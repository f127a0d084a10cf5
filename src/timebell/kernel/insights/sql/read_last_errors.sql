-- What the last failed attempt of each of these jobs said, where one failed and the job is not over. The log has a part
-- for each day, and those from before a job was enqueued are not looked into.
SELECT j.id, e.error_class, e.error
FROM timebell.jobs j CROSS JOIN LATERAL (
    SELECT l.error_class, l.error FROM timebell.job_log l
    WHERE l.id = j.id AND l.tenant = j.tenant AND l.error IS NOT NULL
        AND l.logged_at >= j.created_at - interval '1 minute'
    ORDER BY l.version DESC LIMIT 1
) e
WHERE j.id = ANY (:ids::uuid[]) AND j.tenant = :tenant::text AND j.version > 1
