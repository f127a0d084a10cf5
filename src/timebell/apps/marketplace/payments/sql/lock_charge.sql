SELECT m.ref, m.call, m.key, m.fingerprint, m.amount, m.currency, m.booking_id, m.payment_id, m.of_ref, m.state
FROM marketplace.simulator_movements m
WHERE m.tenant = :tenant::text AND m.ref = :ref::text AND m.call = 'charge' FOR UPDATE
