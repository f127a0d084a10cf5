-- A new schedule, not planned yet.
INSERT INTO timebell.schedules (id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local,
    exdates, rdates, on_gap, on_fold, catch_up, catch_up_max, grace_seconds, steps, lead_seconds, payload, parent_id,
    planned_until, timezone_version, correlation_id, created_at, updated_at)
VALUES (:id::uuid, :tenant::text, :owner::text, :subject::text, :recurrence::text, :timezone::text,
    :start_local::timestamp, :until_local::timestamp, :last_local::timestamp, :exdates::timestamp[],
    :rdates::timestamp[], :on_gap::text, :on_fold::text, :catch_up::text, :catch_up_max::integer,
    :grace_seconds::double precision, :steps::text::jsonb, :lead_seconds::double precision, :payload::text::jsonb,
    :parent_id::uuid, :at::timestamptz, :timezone_version::text, :correlation_id::text, :at::timestamptz,
    :at::timestamptz)
RETURNING id, tenant, owner, subject, recurrence, timezone, start_local, until_local, last_local, exdates, rdates, on_gap,
    on_fold, catch_up, catch_up_max, grace_seconds, steps::text AS steps, payload::text AS payload, revision, parent_id,
    state, state_reason, planned_until, plan_at, timezone_version, correlation_id, created_at, updated_at
