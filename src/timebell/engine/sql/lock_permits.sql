-- One node at a time decides about the permits of a queue. What the others hold is read in the next statement: this
-- one sees the state from before it had to wait.
SELECT concurrency FROM timebell.queues WHERE name = :queue::text AND concurrency IS NOT NULL FOR UPDATE
