-- What bookings do by themselves; it stays so until the transaction ends.
SELECT checks_in_at_start, completes_at_end FROM sequences.booking_settings WHERE tenant = :tenant::text FOR SHARE
