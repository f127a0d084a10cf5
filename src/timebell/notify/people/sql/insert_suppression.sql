-- An address that nothing may be sent to; no row comes back where it stood there already, with its first reason.
INSERT INTO timebell_notify.suppressions (tenant, channel, address, class, reason, source, created_at)
VALUES (:tenant::text, :channel::text, :address::text, :class::text, :reason::text, :source::text,
    coalesce(:now::timestamptz, now()))
ON CONFLICT DO NOTHING
RETURNING address
