-- What is to be kept of shifts that were cancelled since a dispute was not resolved, as long as it is not.
SELECT p.dispute_id, p.time_log_id, p.amount
FROM marketplace.dispute_penalties p
JOIN marketplace.disputes d ON d.tenant = :tenant::text AND d.id = p.dispute_id
WHERE p.tenant = :tenant::text AND p.time_log_id = ANY(:time_log_ids::uuid[]) AND d.status IN ('Open', 'Legal_Hold')
ORDER BY p.dispute_id, p.time_log_id
