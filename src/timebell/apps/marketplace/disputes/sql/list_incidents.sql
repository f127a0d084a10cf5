-- Those of a booking, the oldest first.
SELECT i.id, i.booking_id, i.time_log_id, i.dispute_option, i.status, i.description, i.reported_by, i.reported_at,
    i.closed_at, i.created_at, i.updated_at
FROM marketplace.incident_reports i
WHERE i.tenant = :tenant::text AND i.booking_id = :booking_id::uuid
    AND (:status::text IS NULL OR i.status = :status::text)
    AND i.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY i.id LIMIT :limit::integer + 1
