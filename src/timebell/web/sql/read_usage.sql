-- What a tenant has, each counted along an index that leads with the tenant, and no further than to the quota and one more.
SELECT jobs.pending_jobs, jobs.payload_bytes, schedules.schedules, recipients.recipients
FROM (
    SELECT count(*) AS pending_jobs, coalesce(sum(bytes), 0)::bigint AS payload_bytes
    FROM (SELECT pg_column_size(payload) AS bytes FROM timebell.jobs WHERE tenant = :tenant::text
        LIMIT :jobs_max::bigint + 1) j
) jobs CROSS JOIN (
    SELECT count(*) AS schedules FROM (
        SELECT 1 FROM timebell.schedules WHERE tenant = :tenant::text AND state <> 'ended'
        LIMIT :schedules_max::bigint + 1) s
) schedules CROSS JOIN (
    SELECT count(*) AS recipients FROM (
        SELECT 1 FROM timebell_notify.recipients WHERE tenant = :tenant::text AND erased_at IS NULL
        LIMIT :recipients_max::bigint + 1) r
) recipients
