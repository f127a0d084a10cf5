INSERT INTO marketplace.disputes AS d (tenant, id, booking_id, time_log_id, dispute_option, reason, filed_by,
    dispute_filed_at, timeout_expiration_time, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :booking_id::uuid, :time_log_id::uuid, :dispute_option::text, :reason::text,
    :filed_by::text, :filed_at::timestamptz, :timeout_at::timestamptz, :filed_at::timestamptz, :filed_at::timestamptz)
RETURNING d.id, d.booking_id, d.time_log_id, d.dispute_option, d.status, d.reason, d.filed_by, d.dispute_filed_at,
    d.timeout_expiration_time, d.timed_out_at, d.resolved_at, d.resolved_by, d.settlement::text AS settlement, d.created_at,
    d.updated_at
