-- What is asked for instead, under the same names. A tombstone that was old enough becomes a request like any other.
UPDATE scheduler.requests r
SET due_at = w.due_at, recurrence = w.recurrence, timezone = w.timezone, start_at = w.start_at,
    is_start_given = coalesce(w.is_start_given, false), misfire = w.misfire, payload = w.payload::json,
    correlation_id = w.correlation_id, job_id = w.job_id, schedule_id = w.schedule_id, cancelled_at = NULL,
    updated_at = coalesce(:now::timestamptz, now())
FROM unnest(:ids::text[], :due_ats::timestamptz[], :recurrences::text[], :timezones::text[], :start_ats::timestamptz[],
    :starts_given::boolean[], :misfires::text[], :payloads::text[], :correlation_ids::text[], :job_ids::uuid[],
    :schedule_ids::uuid[])
    AS w(id, due_at, recurrence, timezone, start_at, is_start_given, misfire, payload, correlation_id, job_id, schedule_id)
WHERE r.tenant = :tenant::text AND r.id = w.id
