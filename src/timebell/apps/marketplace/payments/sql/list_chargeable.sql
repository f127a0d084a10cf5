-- The shifts of a booking that somebody still has to pay for: nobody has clocked in, they begin from one instant on and before
-- another, and no payment that counts is for them.
SELECT s.id AS time_log_id, s.amount
FROM marketplace.time_log s
WHERE s.tenant = :tenant::text AND s.booking_id = :booking_id::uuid AND s.status = 'Scheduled' AND s.amount > 0
    AND s.scheduled_start >= :since::timestamptz AND s.scheduled_start < :until::timestamptz
    AND NOT EXISTS (SELECT FROM marketplace.payment_lines l
        JOIN marketplace.pending_payments p ON p.tenant = l.tenant AND p.id = l.payment_id
        WHERE l.tenant = s.tenant AND l.time_log_id = s.id AND p.status = ANY (:counted::text[]))
ORDER BY s.id
