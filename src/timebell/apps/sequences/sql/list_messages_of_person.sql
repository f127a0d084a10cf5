-- The messages to one person in the order of their making, those of a sequence or some statuses as in list_messages.
WITH looked_at AS MATERIALIZED (
    SELECT m.id, (:sequence_id::uuid IS NULL OR m.sequence_id = :sequence_id::uuid) AS is_match,
        row_number() OVER (ORDER BY m.id) = :look_max::integer AS is_end
    FROM sequences.messages m
    WHERE m.tenant = :tenant::text AND m.recipient_id = :person::uuid
        AND m.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY m.id LIMIT :look_max::integer
), standing AS (
    SELECT s.*, l.is_end,
        l.is_match AND (:statuses::text[] IS NULL OR s.status = ANY (:statuses::text[])) AS is_match
    FROM looked_at l JOIN sequences.standings s ON s.tenant = :tenant::text AND s.id = l.id
    WHERE l.is_match OR l.is_end
)
SELECT id, subject, sequence_id, step, entry, recipient_id, channel, is_channel_used, due_at, status, reason, template, sent_at,
    attempt_count, job_id, is_match, is_end
FROM standing WHERE is_match OR is_end ORDER BY id LIMIT :limit::integer + 1
