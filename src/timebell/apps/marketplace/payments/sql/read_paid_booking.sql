SELECT p.booking_id FROM marketplace.pending_payments p
WHERE p.tenant = :tenant::text AND p.id = :payment_id::uuid
