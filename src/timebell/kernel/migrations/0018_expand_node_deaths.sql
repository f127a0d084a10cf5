-- phase: expand
-- The lives of nodes that did not end in order, and the jobs that were under way in each and have not ended since. A
-- death that none of them explains was from outside, and where nodes die of that, nobody is blamed so soon.
CREATE TABLE timebell.node_deaths (
    incarnation bigint PRIMARY KEY,
    died_at     timestamptz NOT NULL
);
CREATE INDEX node_deaths_age ON timebell.node_deaths (died_at);
CREATE TABLE timebell.suspects (
    incarnation bigint NOT NULL,
    job_id      uuid NOT NULL,
    was_alone   boolean NOT NULL,
    PRIMARY KEY (incarnation, job_id)
);
CREATE INDEX suspects_job ON timebell.suspects (job_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON timebell.node_deaths, timebell.suspects TO {app_role};
GRANT SELECT ON timebell.node_deaths, timebell.suspects TO {read_role};
