SELECT d.id FROM marketplace.disputes d
WHERE d.tenant = :tenant::text AND d.time_log_id = :time_log_id::uuid AND d.status = 'Open'
