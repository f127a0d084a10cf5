-- How far each schedule is planned now, and when it must be looked at again. One state and one instant up to which its
-- past was settled may stand for all.
UPDATE timebell.schedules s
SET planned_until = p.planned_until, plan_at = p.plan_at, state = coalesce(p.state, (:states::text[])[1]),
    state_reason = CASE coalesce(p.state, (:states::text[])[1]) WHEN 'ended' THEN 'over' END,
    settled_until = greatest(s.settled_until, coalesce(p.settled_until, (:settled_untils::timestamptz[])[1])),
    timezone_version = :timezone_version::text
FROM unnest(:ids::uuid[], :planned_untils::timestamptz[], :plan_ats::timestamptz[], :states::text[],
    :settled_untils::timestamptz[]) AS p(id, planned_until, plan_at, state, settled_until)
WHERE s.id = p.id
