-- Writes down that a provider is about to be called, before it is. A delivery that was tried before keeps its row and
-- its id, and so the key that the provider knows it by; its content is that of the last attempt. What comes back says at
-- which position it was asked for; nothing does for a recipient who was erased, or is being erased by somebody who keeps
-- the row locked, for what has expired since it was decided, and for a delivery that a report has moved since.
WITH living AS MATERIALIZED (
    SELECT r.tenant, r.id FROM timebell_notify.recipients r
    WHERE (r.tenant, r.id) IN (SELECT a.tenant, a.id FROM unnest(:tenants::text[], :recipient_ids::uuid[]) AS a(tenant, id))
        AND r.erased_at IS NULL
    FOR KEY SHARE OF r SKIP LOCKED
), asked AS (
    SELECT * FROM unnest(:tenants::text[], :ids::uuid[], :notification_ids::uuid[], :recipient_ids::uuid[],
        :channels::text[], :providers::text[], :addresses::text[], :languages::text[], :contents::text[],
        :expires_ats::timestamptz[])
        WITH ORDINALITY AS a(tenant, id, notification_id, recipient_id, channel, provider, address, language, content,
            expires_at, position)
), delivery AS (
    INSERT INTO timebell_notify.deliveries AS d (tenant, id, notification_id, recipient_id, channel, provider, address,
        language, content, state, attempt_count, created_at, updated_at)
    SELECT tenant, id, notification_id, recipient_id, channel, provider, address, language, content::jsonb, 'pending', 1,
        coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
    FROM asked a
    WHERE EXISTS (SELECT FROM living l WHERE l.tenant = a.tenant AND l.id = a.recipient_id)
        AND (a.expires_at IS NULL OR a.expires_at > coalesce(:now::timestamptz, now()))
    ORDER BY tenant, notification_id, channel, provider, address
    ON CONFLICT (tenant, notification_id, channel, provider, address) DO UPDATE
    SET attempt_count = d.attempt_count + 1, state = 'pending', reason = NULL, language = excluded.language,
        content = excluded.content, updated_at = coalesce(:now::timestamptz, now())
    WHERE d.state IN ('pending', 'uncertain')
    RETURNING d.tenant, d.id, d.notification_id, d.channel, d.provider, d.address, d.attempt_count
), attempt AS (
    INSERT INTO timebell_notify.attempts (tenant, delivery_id, number, started_at)
    SELECT tenant, id, attempt_count, coalesce(:now::timestamptz, now()) FROM delivery
)
SELECT a.position, d.id, d.attempt_count AS number, coalesce(:now::timestamptz, now()) AS started_at
FROM asked a JOIN delivery d USING (tenant, notification_id, channel, provider, address)
ORDER BY a.position
