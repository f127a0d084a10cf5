-- Which of these searches have told of this worker lately, or are to in their next digest.
SELECT a.search_id
FROM marketplace.search_alerts a
WHERE a.tenant = :tenant::text AND a.search_id = ANY (:search_ids::uuid[]) AND a.worker_id = :worker_id::uuid
    AND a.alerted_at > coalesce(:now::timestamptz, now()) - interval '24 hours'
