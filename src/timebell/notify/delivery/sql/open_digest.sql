-- The window of a digest that closes at an instant, made unless it is there. It cannot close before this transaction
-- ends; no row comes back where it has closed. The last to join decides whether it is told empty.
INSERT INTO timebell_notify.digests AS g (tenant, id, recipient_id, key, closes, template, is_sent_empty, opened_at,
    closes_at)
VALUES (:tenant::text, :id::uuid, :recipient_id::uuid, :key::text, :closes::text, :template::text,
    :is_sent_empty::boolean, coalesce(:now::timestamptz, now()), :closes_at::timestamptz)
ON CONFLICT (tenant, recipient_id, key, closes_at) DO UPDATE SET is_sent_empty = excluded.is_sent_empty
WHERE g.closed_at IS NULL
RETURNING g.id
