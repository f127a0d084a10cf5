-- Notes what is to be told. One that is noted already, because its job runs again, is left as it is. Of what was to be
-- told to somebody who was erased, or never was, only that is noted; while somebody is being erased, nothing is. What was
-- planned before it was decided that another version of its template is used is told with that.
WITH living AS MATERIALIZED (
    SELECT r.tenant, r.id FROM timebell_notify.recipients r
    WHERE (r.tenant, r.id) IN (SELECT a.tenant, a.id FROM unnest(:tenants::text[], :recipient_ids::uuid[]) AS a(tenant, id))
        AND r.erased_at IS NULL
    FOR KEY SHARE OF r SKIP LOCKED
)
INSERT INTO timebell_notify.notifications (tenant, id, recipient_id, template, template_version, topic, class, urgency,
    route, guard, context, is_erased, subject, key, digest, on_quiet, due_at, expires_at, state, correlation_id,
    created_at)
SELECT n.tenant, n.id, n.recipient_id, n.template, CASE WHEN m.number > n.move THEN m.version ELSE n.template_version END,
    n.topic, n.class, n.urgency, n.route::jsonb, n.guard, CASE WHEN l.id IS NULL THEN '{}' ELSE n.context::jsonb END,
    l.id IS NULL, n.subject, n.key, n.digest::jsonb, n.on_quiet, coalesce(n.due_at, :now::timestamptz, now()),
    n.expires_at, 'pending', n.correlation_id, coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :ids::uuid[], :recipient_ids::uuid[], :templates::text[], :template_versions::integer[],
    :moves::integer[], :topics::text[], :classes::text[], :urgencies::text[], :routes::text[], :guards::text[],
    :contexts::text[], :subjects::text[], :keys::text[], :digests::text[], :on_quiets::text[], :due_ats::timestamptz[],
    :expires_ats::timestamptz[], :correlation_ids::text[])
    AS n(tenant, id, recipient_id, template, template_version, move, topic, class, urgency, route, guard, context,
        subject, key, digest, on_quiet, due_at, expires_at, correlation_id)
LEFT JOIN living l ON l.tenant = n.tenant AND l.id = n.recipient_id
LEFT JOIN timebell_notify.recipients r ON r.tenant = n.tenant AND r.id = n.recipient_id
LEFT JOIN timebell_notify.template_moves m ON m.tenant = n.tenant AND m.key = n.template
WHERE l.id IS NOT NULL OR r.erased_at IS NOT NULL OR r.id IS NULL
ON CONFLICT (tenant, id) DO NOTHING
