-- phase: expand
-- What transactional handlers wrote. Without a key, so that an effect that happened twice shows.
CREATE TABLE faults.effects (name text NOT NULL, job_id uuid NOT NULL, node text NOT NULL);
GRANT SELECT, INSERT ON faults.effects TO {app_role};
