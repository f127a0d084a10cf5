SELECT coalesce(sum(m.amount), 0)::bigint AS amount FROM marketplace.simulator_movements m
WHERE m.tenant = :tenant::text AND m.of_ref = :of_ref::text AND m.call = :call::text
