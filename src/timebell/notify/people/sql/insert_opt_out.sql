-- A recipient does not want a topic or a channel; no row comes back where it had said so before.
INSERT INTO timebell_notify.opt_outs (tenant, recipient_id, topic, channel, source, created_at)
VALUES (:tenant::text, :recipient_id::uuid, :topic::text, :channel::text, :source::text,
    coalesce(:now::timestamptz, now()))
ON CONFLICT DO NOTHING
RETURNING topic
