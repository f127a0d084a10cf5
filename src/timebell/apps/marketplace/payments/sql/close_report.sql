UPDATE marketplace.payment_events e SET applied_at = coalesce(:now::timestamptz, now()), answer = :answer::text
WHERE e.tenant = :tenant::text AND e.provider = :provider::text AND e.provider_event_id = :provider_event_id::text
