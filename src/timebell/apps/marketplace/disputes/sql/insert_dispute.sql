INSERT INTO marketplace.disputes (tenant, id, booking_id, time_log_id, dispute_option, reason, filed_by,
    dispute_filed_at, timeout_expiration_time, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :booking_id::uuid, :time_log_id::uuid, :dispute_option::text, :reason::text,
    :filed_by::text, :filed_at::timestamptz, :timeout_at::timestamptz, :filed_at::timestamptz, :filed_at::timestamptz)
