-- Pauses every queue for everybody, but those that are paused so already.
INSERT INTO timebell.queue_pauses (queue, tenant, reason, actor, paused_at)
SELECT q.name, '', :reason::text, :actor::text, coalesce(:now::timestamptz, now()) FROM timebell.queues q
ON CONFLICT (queue, tenant) DO NOTHING
RETURNING queue
