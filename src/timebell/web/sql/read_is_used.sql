-- Whether anything was ever asked of this database.
SELECT EXISTS (SELECT FROM timebell.jobs) OR EXISTS (SELECT FROM timebell.job_log)
    OR EXISTS (SELECT FROM timebell.dead_jobs) OR EXISTS (SELECT FROM timebell.schedules)
    OR EXISTS (SELECT FROM timebell_notify.recipients) AS is_used
