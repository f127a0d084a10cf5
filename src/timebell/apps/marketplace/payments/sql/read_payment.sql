SELECT p.tenant, p.id, p.booking_id, p.period_start, p.period_end, p.amount, p.currency, p.status, p.provider,
    p.provider_intent_id, p.idempotency_key, p.attempt, p.failure, p.correlation_id, p.settled_at, p.created_at, p.updated_at
FROM marketplace.pending_payments p
WHERE p.tenant = :tenant::text AND p.id = :id::uuid
