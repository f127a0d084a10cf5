-- Those that should have timed out by now, have not, and have no timer any more; some at a time. Nothing is left to cancel where
-- the booking was cancelled, as with option B.
SELECT d.id FROM marketplace.disputes d
JOIN marketplace.staffing_bookings b ON b.tenant = :tenant::text AND b.id = d.booking_id
WHERE d.tenant = :tenant::text AND d.status = 'Open' AND d.dispute_option = 'A' AND d.timed_out_at IS NULL
    AND d.timeout_expiration_time <= coalesce(:now::timestamptz, now()) AND b.status <> 'Cancelled'
    AND NOT EXISTS (SELECT FROM timebell.jobs j
        WHERE j.tenant = :tenant::text AND j.subject = 'dispute:' || d.id AND j.kind = :kind::text)
    AND d.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
ORDER BY d.id LIMIT :limit::integer
