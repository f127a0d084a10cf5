-- Whether somebody asked to cancel a job whose row its own attempt holds.
SELECT FROM timebell.cancel_requests WHERE job_id = :id::uuid LIMIT 1
