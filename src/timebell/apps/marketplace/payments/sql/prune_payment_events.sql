-- What was applied is kept for as long as a provider could send it again, and longer.
DELETE FROM marketplace.payment_events e
WHERE (e.tenant, e.provider, e.provider_event_id) IN (
    SELECT o.tenant, o.provider, o.provider_event_id FROM marketplace.payment_events o
    WHERE o.received_at < coalesce(:now::timestamptz, now()) - make_interval(days => :days::integer)
        AND o.applied_at IS NOT NULL
    ORDER BY o.received_at LIMIT :limit::integer)
RETURNING e.provider_event_id
