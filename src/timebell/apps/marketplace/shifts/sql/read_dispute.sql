SELECT d.id, d.booking_id, d.time_log_id, d.dispute_option, d.status, d.reason, d.filed_by, d.dispute_filed_at,
    d.timeout_expiration_time, d.timed_out_at, d.resolved_at, d.resolved_by, d.settlement::text AS settlement, d.created_at,
    d.updated_at
FROM marketplace.disputes d
WHERE d.tenant = :tenant::text AND d.id = :id::uuid
