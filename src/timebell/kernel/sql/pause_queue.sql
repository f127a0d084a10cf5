-- An empty tenant pauses the queue for everybody.
INSERT INTO timebell.queue_pauses (queue, tenant, reason, actor, paused_at)
VALUES (:queue::text, :tenant::text, :reason::text, :actor::text, coalesce(:now::timestamptz, now()))
ON CONFLICT (queue, tenant) DO UPDATE SET reason = excluded.reason, actor = excluded.actor
