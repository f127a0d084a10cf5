-- Of jobs that were withdrawn, those whose message was sent all the same, or may have been. Notify says so of what has no job any more, also where an
-- attempt was never answered.
SELECT s.id FROM timebell_notify.standing s
WHERE s.tenant = :tenant::text AND s.id = ANY (:job_ids::uuid[]) AND s.state IN ('sent', 'delivered', 'suppressed', 'uncertain')
