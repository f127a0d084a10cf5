-- A schedule as its terms are now; how far it is planned is written apart from that.
UPDATE timebell.schedules
SET owner = :owner::text, subject = :subject::text, recurrence = :recurrence::text, timezone = :timezone::text,
    start_local = :start_local::timestamp, until_local = :until_local::timestamp, last_local = :last_local::timestamp,
    exdates = :exdates::timestamp[], rdates = :rdates::timestamp[], on_gap = :on_gap::text, on_fold = :on_fold::text,
    catch_up = :catch_up::text, catch_up_max = :catch_up_max::integer, grace_seconds = :grace_seconds::double precision,
    steps = :steps::text::jsonb, lead_seconds = :lead_seconds::double precision, payload = :payload::text::jsonb,
    correlation_id = :correlation_id::text, revision = revision + 1, updated_at = :at::timestamptz
WHERE id = :id::uuid AND tenant = :tenant::text
RETURNING id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at
