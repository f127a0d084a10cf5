-- Which of these names are known. They come in an order that all who take several keep to, and each is looked up by itself:
-- a plan that was made for a small table must not walk through a large one. A tombstone counts for a day.
SELECT known.* FROM unnest(:ids::text[]) AS w(id)
CROSS JOIN LATERAL (
    SELECT r.id, r.due_at, r.recurrence, r.timezone, r.start_at, r.is_start_given, r.misfire, r.job_id, r.schedule_id,
        r.cancelled_at > coalesce(:now::timestamptz, now()) - interval '24 hours' AS is_fresh
    FROM scheduler.requests r
    WHERE r.tenant = :tenant::text AND r.id = w.id LIMIT 1 FOR UPDATE
) known
