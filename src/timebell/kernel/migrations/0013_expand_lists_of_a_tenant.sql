-- phase: expand
-- Lists are of one tenant, and the wall between tenants hides the rows of others without counting them. So the indexes that lists
-- go along lead with the tenant: beside others with millions of rows, a tenant with a few looks at a few.
--
-- On a large table in use, build these beforehand, under the same names, with CREATE INDEX CONCURRENTLY; only the log,
-- which is partitioned, cannot have that.

CREATE INDEX IF NOT EXISTS jobs_tenant ON timebell.jobs (tenant, id);
CREATE INDEX IF NOT EXISTS events_tenant ON timebell.events (tenant, id);
CREATE INDEX IF NOT EXISTS dead_jobs_tenant_id ON timebell.dead_jobs (tenant, id);
CREATE INDEX IF NOT EXISTS queue_pauses_tenant ON timebell.queue_pauses (tenant, queue);

-- Whoever looks for a job in the log knows whose it is, so one index takes the place of the other.
CREATE INDEX IF NOT EXISTS job_log_tenant ON timebell.job_log (tenant, id);
DROP INDEX timebell.job_log_id;
