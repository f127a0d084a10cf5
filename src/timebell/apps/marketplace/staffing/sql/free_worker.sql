-- From an instant on a booking no longer takes its worker; one that has not begun by then takes nothing at all.
WITH gone AS (
    DELETE FROM marketplace.taken
    WHERE tenant = :tenant::text AND booking_id = :booking_id::uuid AND lower(during) >= :from_at::timestamptz
)
UPDATE marketplace.taken SET during = tstzrange(lower(during), :from_at::timestamptz)
WHERE tenant = :tenant::text AND booking_id = :booking_id::uuid AND lower(during) < :from_at::timestamptz
    AND upper(during) > :from_at::timestamptz
