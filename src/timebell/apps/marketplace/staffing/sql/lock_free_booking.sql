-- As lock_booking, for whoever must not wait; nothing comes back where somebody else has it, or where there is none.
SELECT id FROM marketplace.staffing_bookings WHERE tenant = :tenant::text AND id = :id::uuid FOR UPDATE SKIP LOCKED
