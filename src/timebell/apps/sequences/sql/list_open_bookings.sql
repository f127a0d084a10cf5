-- Bookings to which something may still happen by itself, in the order of their names.
SELECT s.subject FROM sequences.subjects s
WHERE s.tenant = :tenant::text AND s.is_booking AND s.subject > :after::text AND s.status IN ('confirmed', 'checked_in')
ORDER BY s.subject LIMIT :limit::integer
