-- Notes alerts of one rule and tenant; none where one stands already. They are open at once, or only seen.
INSERT INTO timebell.alerts (id, tenant, app, rule, severity, subject, detail, is_of_engine, is_by_hand, seen_at, opened_at)
SELECT n.id, :tenant::text, :app::text, :rule::text, :severity::text, n.subject, n.detail, :is_of_engine::boolean,
    :is_by_hand::boolean, t.now, CASE WHEN :is_open::boolean THEN t.now END
FROM unnest(:ids::uuid[], :subjects::text[], :details::text[]) AS n(id, subject, detail)
CROSS JOIN (SELECT coalesce(:now::timestamptz, now()) AS now) t
ON CONFLICT (rule, tenant, subject) WHERE closed_at IS NULL DO NOTHING
RETURNING id, subject, detail
