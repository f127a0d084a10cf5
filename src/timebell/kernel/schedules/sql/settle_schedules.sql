-- Where schedules stand after they were planned, by an edit or as time went by: the state, up to where, and when to look
-- again. One state, one revision and one instant up to which the past was settled may stand for all.
UPDATE timebell.schedules s
SET planned_until = p.planned_until, plan_at = p.plan_at, state = coalesce(p.state, (:states::text[])[1]),
    state_reason = p.state_reason, revision = coalesce(p.revision, (:revisions::integer[])[1]),
    settled_until = greatest(s.settled_until, coalesce(p.settled_until, (:settled_untils::timestamptz[])[1])),
    updated_at = coalesce(:edited_at::timestamptz, s.updated_at), timezone_version = :timezone_version::text
FROM unnest(:ids::uuid[], :planned_untils::timestamptz[], :plan_ats::timestamptz[], :states::text[],
    :state_reasons::text[], :settled_untils::timestamptz[], :revisions::integer[])
    AS p(id, planned_until, plan_at, state, state_reason, settled_until, revision)
WHERE s.id = p.id
