-- Of bookings in which nobody works any more: those that were cancelled, and those whose last day is long over.
DELETE FROM marketplace.insurance_stops s
WHERE (s.tenant, s.booking_id, s.company_id, s.type) IN (
    SELECT o.tenant, o.booking_id, o.company_id, o.type
    FROM marketplace.insurance_stops o
    JOIN marketplace.staffing_bookings b ON b.tenant = o.tenant AND b.id = o.booking_id
    WHERE o.stopped_at < coalesce(:now::timestamptz, now()) - make_interval(days => :days::integer)
        AND (b.status = 'Cancelled'
            OR b.end_date < (coalesce(:now::timestamptz, now()) AT TIME ZONE 'UTC')::date - :days::integer)
    ORDER BY o.stopped_at LIMIT :limit::integer)
RETURNING s.booking_id
