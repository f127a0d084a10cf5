-- Whether there is something about a booking for which its payments are paused: an open dispute, or a report that nobody has
-- closed.
SELECT EXISTS (SELECT FROM marketplace.disputes d
        WHERE d.tenant = :tenant::text AND d.booking_id = :booking_id::uuid AND d.status = 'Open')
    OR EXISTS (SELECT FROM marketplace.incident_reports i
        WHERE i.tenant = :tenant::text AND i.booking_id = :booking_id::uuid AND i.status = 'Pending') AS is_contested
