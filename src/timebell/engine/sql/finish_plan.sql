-- How far each schedule is planned now, and when it must be looked at again.
UPDATE timebell.schedules s
SET planned_until = p.planned_until, plan_at = p.plan_at, state = p.state,
    state_reason = CASE p.state WHEN 'ended' THEN 'over' END,
    settled_until = greatest(s.settled_until, p.settled_until), timezone_version = :timezone_version::text
FROM unnest(:ids::uuid[], :planned_untils::timestamptz[], :plan_ats::timestamptz[], :states::text[],
    :settled_untils::timestamptz[]) AS p(id, planned_until, plan_at, state, settled_until)
WHERE s.id = p.id
