-- Requests of one tenant, as many as there are ids; a column of NULLs is an empty array, which unnest fills up. What has no
-- number of its own has that of its job. Where another was faster with a name, fewer are counted. In the order of their
-- names, so that nobody waits in a circle.
WITH inserted AS (
    INSERT INTO scheduler.requests (tenant, id, number, due_at, recurrence, timezone, start_at, is_start_given, misfire,
        payload, correlation_id, job_id, schedule_id, created_at, updated_at)
    SELECT :tenant::text, w.id, coalesce(w.number, w.job_id), w.due_at, w.recurrence, w.timezone, w.start_at, coalesce(w.is_start_given, false),
        w.misfire, w.payload::json, w.correlation_id, w.job_id, w.schedule_id, coalesce(:now::timestamptz, now()),
        coalesce(:now::timestamptz, now())
    FROM unnest(:ids::text[], :numbers::uuid[], :due_ats::timestamptz[], :recurrences::text[], :timezones::text[],
        :start_ats::timestamptz[], :starts_given::boolean[], :misfires::text[], :payloads::text[], :correlation_ids::text[],
        :job_ids::uuid[], :schedule_ids::uuid[])
        AS w(id, number, due_at, recurrence, timezone, start_at, is_start_given, misfire, payload, correlation_id, job_id,
            schedule_id)
    ORDER BY w.id COLLATE "C"
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING 1
)
SELECT count(*)::integer AS inserted_count FROM inserted
