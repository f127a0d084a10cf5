-- The shifts of a booking as they are planned.
INSERT INTO marketplace.time_log (tenant, id, booking_id, worker_id, shift_date, shift_start_time, scheduled_start,
    scheduled_end, amount, created_at, updated_at)
SELECT :tenant::text, s.id, :booking_id::uuid, :worker_id::uuid, s.shift_date, s.shift_start_time, s.scheduled_start,
    s.scheduled_end, s.amount, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
FROM unnest(:ids::uuid[], :shift_dates::date[], :shift_start_times::time[], :scheduled_starts::timestamptz[],
    :scheduled_ends::timestamptz[], :amounts::bigint[])
    AS s(id, shift_date, shift_start_time, scheduled_start, scheduled_end, amount)
