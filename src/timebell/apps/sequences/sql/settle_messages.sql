-- Write down what became of messages whose job has come to its end, in a bounded look from the longest due on; answers with how many were looked
-- at, and with the last of them. A dead job may be brought back, so that what it sends is not over.
WITH looked AS (
    SELECT m.id, m.due_at FROM sequences.messages m
    WHERE m.tenant = :tenant::text AND m.status = 'scheduled' AND (m.due_at, m.id) > (:after_at::timestamptz, :after::uuid)
        AND m.due_at <= coalesce(:now::timestamptz, now())
    ORDER BY m.due_at, m.id LIMIT :limit::integer
), ended AS (
    SELECT s.id, s.status, s.reason, s.sent_at, s.attempt_count, s.channel
    FROM looked l JOIN sequences.standings s ON s.tenant = :tenant::text AND s.id = l.id
    WHERE s.is_over
), settled AS (
    UPDATE sequences.messages m
    SET status = e.status, reason = e.reason, sent_at = e.sent_at, attempt_count = e.attempt_count, channel = e.channel,
        settled_at = coalesce(:now::timestamptz, now())
    FROM ended e WHERE m.tenant = :tenant::text AND m.id = e.id AND m.status = 'scheduled'
    RETURNING m.id
)
SELECT (SELECT count(*) FROM looked) AS looked_count, last.due_at AS last_at, last.id AS last_id,
    (SELECT count(*) FROM settled) AS settled_count
FROM (SELECT true) one LEFT JOIN (SELECT due_at, id FROM looked ORDER BY due_at DESC, id DESC LIMIT 1) last ON true
