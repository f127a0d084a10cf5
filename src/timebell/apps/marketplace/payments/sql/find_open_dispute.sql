-- The one that is open about a shift, or for which the law holds its money.
SELECT d.id FROM marketplace.disputes d
WHERE d.tenant = :tenant::text AND d.time_log_id = :time_log_id::uuid AND d.status IN ('Open', 'Legal_Hold')
