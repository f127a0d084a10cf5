-- These ended by themselves, so they are not what the nodes died of on which they had been before.
DELETE FROM timebell.suspects WHERE job_id = ANY(:ids::uuid[])
