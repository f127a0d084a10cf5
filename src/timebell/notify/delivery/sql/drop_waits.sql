-- Those that were called and did not come wait no longer; one that still wants to asks again. Answers how many may be
-- expected: they were called of late, or came and keep their place.
WITH gone AS (
    DELETE FROM timebell_notify.provider_waits w
    WHERE w.provider = :provider::text
        AND w.called_at < coalesce(:now::timestamptz, clock_timestamp()) - :patience::interval
    RETURNING 1
)
SELECT count(*) FROM timebell_notify.provider_waits w
WHERE w.provider = :provider::text AND w.called_at IS NOT NULL
    AND greatest(w.called_at + :expected::interval, w.kept_until) >= coalesce(:now::timestamptz, clock_timestamp())
