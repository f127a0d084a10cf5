-- The rows of each slot and lane past its cursor up to an instant, in due order and a bounded number for each. A payload
-- and a job's own cursor stay behind until it runs where they are large: as text they may be many times what is stored,
-- where that is compressed or has large numbers in it, so of those not more than 4001 characters are sent, which is one
-- too many. The planned instant stays behind where it is that of the next try. Each row says what time it was, in case
-- the clock was set back. In a slot of another node only the named kinds are meant, and in one's own not those that
-- others visit it for, unless whoever started one has died since.
SELECT j.*, (SELECT (extract(epoch FROM coalesce(:now::timestamptz, now())) * 1000000)::bigint) AS told_us
FROM unnest(:slots::smallint[], :lanes::smallint[], :from_ats::timestamptz[], :from_ids::uuid[],
    :visited_kinds::text[]) AS w(slot, lane, from_at, from_id, kinds)
CROSS JOIN LATERAL (
    SELECT j.id, j.version, j.slot, j.lane, j.run_at, nullif(j.due_at, j.run_at) AS due_at, j.expires_at, j.tenant,
        j.queue, j.kind, j.subject, j.key, j.step, j.step_order, j.guard, j.priority, j.attempt, j.max_attempts,
        j.crash_count, j.started_by, j.cancel_requested_at, j.correlation_id, j.cursor IS NOT NULL AS has_cursor,
        CASE WHEN pg_column_size(j.cursor) <= 2000 AND pg_column_compression(j.cursor) IS NULL
            THEN j.cursor::text::varchar(4001) END AS cursor,
        CASE WHEN pg_column_size(j.payload) <= 2000 AND pg_column_compression(j.payload) IS NULL
            THEN j.payload::text::varchar(4001) END AS payload
    FROM timebell.jobs j
    WHERE j.slot = w.slot AND j.lane = w.lane AND (j.run_at, j.id) > (w.from_at, w.from_id)
        AND j.run_at <= :until::timestamptz
        AND (:tenant::text IS NULL OR j.tenant = :tenant::text)
        AND (:queue::text IS NULL OR j.queue = :queue::text)
        AND (:passed_over::text[] IS NULL OR j.tenant || chr(31) || j.queue <> ALL(:passed_over::text[]))
        AND (w.kinds IS NULL OR strpos(w.kinds, chr(31) || j.kind || chr(31)) > 0)
        AND (:left_kinds::text[] IS NULL OR w.kinds IS NOT NULL OR j.kind <> ALL(:left_kinds::text[])
            OR j.started_by IS NOT NULL)
    ORDER BY j.run_at, j.id
    LIMIT :per_slot::integer
) j
ORDER BY j.run_at, j.id
