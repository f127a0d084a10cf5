-- Those of a zone that are paid for by the week and go on, some at a time; with `funded_before`, only those that are paid for
-- up to an earlier instant. The attempt is the one that would be the next for this period.
SELECT b.id, (SELECT coalesce(max(p.attempt), 0) + 1 FROM marketplace.pending_payments p
    WHERE p.tenant = b.tenant AND p.booking_id = b.id AND p.period_start = :period_start::timestamptz) AS attempt
FROM marketplace.staffing_bookings b
WHERE b.tenant = :tenant::text AND b.timezone = :timezone::text AND b.status = 'Active'
    AND b.payment_type = 'Weekly_Progress'
    AND (:after::uuid IS NULL OR b.id > :after::uuid)
    AND (:funded_before::timestamptz IS NULL OR b.funded_period_end < :funded_before::timestamptz)
ORDER BY b.id
LIMIT :limit::int
