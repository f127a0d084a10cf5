-- When the provider is free next, for one transaction at a time.
INSERT INTO timebell_notify.provider_rates AS r (provider, next_free_at)
VALUES (:provider::text, coalesce(:now::timestamptz, now()))
ON CONFLICT (provider) DO UPDATE SET next_free_at = r.next_free_at
-- Whoever waited for the lock reads the time behind that.
RETURNING r.next_free_at, r.turn, coalesce(:now::timestamptz, clock_timestamp()) AS now
