-- One node saw a destination fail often enough; all hold their calls.
INSERT INTO timebell.breakers AS b (destination, failure_count, open_seconds, open_until, updated_at)
VALUES (:destination::text, :failure_count::integer, :open_seconds::double precision, :open_until::timestamptz,
    coalesce(:now::timestamptz, now()))
ON CONFLICT (destination) DO UPDATE SET failure_count = excluded.failure_count, open_seconds = excluded.open_seconds,
    open_until = greatest(b.open_until, excluded.open_until), probed_by = NULL, updated_at = excluded.updated_at
