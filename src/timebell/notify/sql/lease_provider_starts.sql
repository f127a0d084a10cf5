-- The next free starts of a provider with a rate, whoever asks; the first of them is first_at, the rest follow spaced.
INSERT INTO timebell_notify.provider_rates AS r (provider, next_free_at)
VALUES (:provider::text, coalesce(:now::timestamptz, now()) + :seconds::double precision * interval '1 second')
ON CONFLICT (provider) DO UPDATE
SET next_free_at = greatest(r.next_free_at, coalesce(:now::timestamptz, now()))
    + :seconds::double precision * interval '1 second'
RETURNING r.next_free_at - :seconds::double precision * interval '1 second' AS first_at,
    coalesce(:now::timestamptz, now()) AS now
