-- When any of some people is taken within a span, as spans that do not touch. What the meeting itself has is left out, and
-- those of its holds that are for whoever asks.
WITH taken AS (
    SELECT b.during FROM meetings.busy b
    WHERE b.tenant = :tenant::text AND b.recipient_id = ANY (:people::uuid[]) AND b.ends_at > :from_at::timestamptz
        AND b.during && tstzrange(:from_at::timestamptz, :to_at::timestamptz)
        AND (b.expires_at IS NULL OR b.expires_at > coalesce(:now::timestamptz, now()))
        AND (b.meeting_id IS DISTINCT FROM :meeting_id::uuid OR b.kind = 'hold' AND b.held_by <> ALL (:holders::uuid[]))
    UNION ALL
    SELECT i.during FROM meetings.imported_busy i
    WHERE i.tenant = :tenant::text AND i.recipient_id = ANY (:people::uuid[]) AND i.ends_at > :from_at::timestamptz
        AND i.during && tstzrange(:from_at::timestamptz, :to_at::timestamptz)
)
SELECT lower(span) AS start_at, upper(span) AS end_at
FROM unnest((SELECT range_agg(during * tstzrange(:from_at::timestamptz, :to_at::timestamptz)) FROM taken)) AS span
