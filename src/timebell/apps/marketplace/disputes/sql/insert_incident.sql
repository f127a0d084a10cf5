INSERT INTO marketplace.incident_reports AS i (tenant, id, booking_id, time_log_id, dispute_option, description,
    reported_by, reported_at, created_at, updated_at)
VALUES (:tenant::text, :id::uuid, :booking_id::uuid, :time_log_id::uuid, :dispute_option::text, :description::text,
    :reported_by::text, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()),
    coalesce(:now::timestamptz, now()))
RETURNING i.id, i.booking_id, i.time_log_id, i.dispute_option, i.status, i.description, i.reported_by, i.reported_at,
    i.closed_at, i.created_at, i.updated_at
