SELECT id, tenant, number, status, due_at, recurrence, timezone, start_at, misfire, payload, correlation_id, upcoming_at,
    fired_count, created_at, updated_at, coalesce(:now::timestamptz, now()) AS now
FROM scheduler.standings WHERE tenant = :tenant::text AND id = :id::text
