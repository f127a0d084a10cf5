-- phase: expand
-- Dead jobs by age, so that the pruner finds the old ones without reading all.

CREATE INDEX IF NOT EXISTS dead_jobs_age ON timebell.dead_jobs (died_at, id);
