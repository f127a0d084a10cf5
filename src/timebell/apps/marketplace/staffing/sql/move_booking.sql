-- A transition. That the booking is still in the status that was decided about, the lock has seen to; this sees to it again.
UPDATE marketplace.staffing_bookings
SET status = :to_status::text, end_date = coalesce(:end_date::date, end_date),
    release_reason = coalesce(:release_reason::text, release_reason), revision = revision + 1,
    updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND id = :id::uuid AND status = :from_status::text
RETURNING id
