-- Completes attempts with what their providers answered. A report that overtook the answer is not undone by it, nor what
-- is known of a later attempt by a doubt or a no to an earlier one; where the delivery then stands comes back. What the
-- provider said is kept only of a delivery that was not erased meanwhile.
WITH answered AS (
    SELECT * FROM unnest(:tenants::text[], :delivery_ids::uuid[], :numbers::integer[], :answers::text[],
        :states::text[], :reasons::text[], :provider_ids::text[], :details::text[], :costs::text[])
        WITH ORDINALITY
        AS a(tenant, delivery_id, number, answer, state, reason, provider_id, detail, cost, position)
), moved AS (
    UPDATE timebell_notify.deliveries d
    SET state = a.state, reason = a.reason, provider_id = coalesce(a.provider_id, d.provider_id),
        failure_count = d.failure_count + (a.cost = 'attempt')::integer,
        rate_limited_count = d.rate_limited_count + (a.cost = 'limit')::integer,
        sent_at = CASE WHEN a.state = 'sent' THEN coalesce(:now::timestamptz, now()) ELSE d.sent_at END,
        updated_at = coalesce(:now::timestamptz, now())
    FROM answered a
    WHERE d.tenant = a.tenant AND d.id = a.delivery_id AND d.state IN ('pending', 'uncertain')
        AND (a.number = d.attempt_count OR a.state IN ('sent', 'suppressed'))
    RETURNING d.tenant, d.id, d.address LIKE 'erased:%' AS is_erased
), attempt AS (
    UPDATE timebell_notify.attempts t
    SET answered_at = coalesce(:now::timestamptz, now()), answer = a.answer, reason = a.reason,
        detail = CASE WHEN NOT m.is_erased THEN a.detail::jsonb END
    FROM answered a LEFT JOIN moved m ON m.tenant = a.tenant AND m.id = a.delivery_id
    WHERE t.tenant = a.tenant AND t.delivery_id = a.delivery_id AND t.number = a.number
        AND (t.answer IS NULL OR a.answer <> 'uncertain')
)
SELECT coalesce(:now::timestamptz, now()) AS answered_at, d.state, d.reason
FROM answered a LEFT JOIN timebell_notify.deliveries d ON d.tenant = a.tenant AND d.id = a.delivery_id
    AND NOT EXISTS (SELECT FROM moved m WHERE m.tenant = a.tenant AND m.id = a.delivery_id)
ORDER BY a.position
