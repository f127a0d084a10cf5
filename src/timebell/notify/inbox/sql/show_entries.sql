-- Puts entries into inboxes, each with its delivery, and each once: one that is there already takes no number. The last
-- number of each recipient is locked, in order, until the commit, so that numbers have no gaps and rise with the
-- commits. Whoever shows the same entry at the same time gets a unique violation here, and finds it when asking again.
-- Nothing is shown to a recipient who was erased, or is being erased just now, and nothing that has expired since it was
-- decided; those positions come back.
WITH living AS MATERIALIZED (
    SELECT r.tenant, r.id FROM timebell_notify.recipients r
    WHERE (r.tenant, r.id) IN (SELECT a.tenant, a.id FROM unnest(:tenants::text[], :recipient_ids::uuid[]) AS a(tenant, id))
        AND r.erased_at IS NULL
    FOR KEY SHARE OF r SKIP LOCKED
), refused AS MATERIALIZED (
    SELECT a.position
    FROM unnest(:tenants::text[], :recipient_ids::uuid[], :expires_ats::timestamptz[]) WITH ORDINALITY
        AS a(tenant, recipient_id, expires_at, position)
    WHERE a.expires_at <= coalesce(:now::timestamptz, now())
        OR NOT EXISTS (SELECT FROM living l WHERE l.tenant = a.tenant AND l.id = a.recipient_id)
), fresh AS MATERIALIZED (
    SELECT DISTINCT ON (a.tenant, a.id) a.*
    FROM unnest(:tenants::text[], :ids::uuid[], :delivery_ids::uuid[], :recipient_ids::uuid[], :types::text[],
        :titles::text[], :descriptions::text[], :priorities::text[], :payloads::text[], :subjects::text[],
        :due_ats::timestamptz[], :languages::text[], :contents::text[]) WITH ORDINALITY
        AS a(tenant, id, delivery_id, recipient_id, type, title, description, priority, payload, subject, due_at,
            language, content, position)
    WHERE NOT EXISTS (SELECT FROM timebell_notify.inbox i WHERE i.tenant = a.tenant AND i.id = a.id)
        AND a.position NOT IN (SELECT r.position FROM refused r)
    ORDER BY a.tenant, a.id, a.position
), ends AS (
    INSERT INTO timebell_notify.inbox_ends AS e (tenant, recipient_id, last_seq)
    SELECT tenant, recipient_id, count(*) FROM fresh
    GROUP BY tenant, recipient_id ORDER BY tenant, recipient_id
    ON CONFLICT (tenant, recipient_id) DO UPDATE SET last_seq = e.last_seq + excluded.last_seq
    RETURNING e.tenant, e.recipient_id, e.last_seq
), shown AS (
    INSERT INTO timebell_notify.inbox AS i (tenant, recipient_id, seq, id, type, title, description, priority, payload,
        subject, due_at, created_at, updated_at)
    SELECT f.tenant, f.recipient_id,
        e.last_seq + 1 - row_number() OVER (PARTITION BY f.tenant, f.recipient_id ORDER BY f.position DESC),
        f.id, f.type, f.title, f.description, f.priority, f.payload::jsonb, f.subject, f.due_at,
        coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
    FROM fresh f JOIN ends e ON e.tenant = f.tenant AND e.recipient_id = f.recipient_id
    RETURNING i.tenant, i.id
), delivery AS (
    INSERT INTO timebell_notify.deliveries (tenant, id, notification_id, recipient_id, channel, provider, address,
        language, content, state, reason, attempt_count, sent_at, created_at, updated_at)
    SELECT f.tenant, f.delivery_id, f.id, f.recipient_id, 'inbox', 'inbox', '', f.language, f.content::jsonb, 'sent',
        'shown', 1, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()),
        coalesce(:now::timestamptz, now())
    FROM shown s JOIN fresh f ON f.tenant = s.tenant AND f.id = s.id
    ON CONFLICT (tenant, notification_id, channel, provider, address) DO NOTHING
)
SELECT position FROM refused
