UPDATE marketplace.incident_reports i
SET status = 'Closed', closed_at = coalesce(:now::timestamptz, now()), updated_at = coalesce(:now::timestamptz, now())
WHERE i.tenant = :tenant::text AND i.id = :id::uuid AND i.status = 'Pending'
RETURNING i.id, i.booking_id, i.time_log_id, i.dispute_option, i.status, i.description, i.reported_by, i.reported_at,
    i.closed_at, i.created_at, i.updated_at
