-- What comes twice is there already.
INSERT INTO marketplace.payment_events (tenant, provider, provider_event_id, payment_id, report, received_at)
VALUES (:tenant::text, :provider::text, :provider_event_id::text, :payment_id::uuid, :report::text::jsonb,
    coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant, provider, provider_event_id) DO NOTHING
RETURNING provider_event_id
