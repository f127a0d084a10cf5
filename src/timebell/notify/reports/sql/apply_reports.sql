-- Takes deliveries as far as their reports say. An attempt that nobody had answered is answered by that, so that no run
-- takes it for cut off. No provider's clock puts anything into the future.
WITH moved AS (
    SELECT m.id, m.state, m.reason, m.answer,
        least(coalesce(m.occurred_at, t.now), t.now) AS occurred_at, t.now
    FROM unnest(:ids::uuid[], :states::text[], :reasons::text[], :answers::text[], :occurred_ats::timestamptz[])
        AS m(id, state, reason, answer, occurred_at)
    CROSS JOIN (SELECT coalesce(:now::timestamptz, now()) AS now) t
), attempt AS (
    UPDATE timebell_notify.attempts a SET answered_at = m.now, answer = m.answer, reason = coalesce(m.reason, m.state)
    FROM moved m
    WHERE a.tenant = :tenant::text AND a.delivery_id = m.id AND a.answer IS NULL
), report AS (
    UPDATE timebell_notify.provider_reports p SET applied = r.applied
    FROM unnest(:report_ids::text[], :applied::text[]) AS r(report_id, applied)
    WHERE p.provider = :provider::text AND p.report_id = r.report_id
)
UPDATE timebell_notify.deliveries d
SET state = m.state, reason = m.reason, updated_at = m.now,
    sent_at = CASE WHEN m.answer = 'sent' THEN coalesce(d.sent_at, m.occurred_at) ELSE d.sent_at END,
    delivered_at = CASE WHEN m.state = 'delivered' THEN coalesce(d.delivered_at, m.occurred_at) ELSE d.delivered_at END
FROM moved m
WHERE d.tenant = :tenant::text AND d.id = m.id
