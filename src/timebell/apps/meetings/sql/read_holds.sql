-- The holds on a meeting that have not ended, the oldest first.
SELECT hold_id AS id, meeting_id, held_by, lower(during) AS start_at, upper(during) AS end_at, expires_at
FROM meetings.busy
WHERE tenant = :tenant::text AND meeting_id = :meeting_id::uuid AND kind = 'hold'
    AND expires_at > coalesce(:now::timestamptz, now())
    AND hold_id > coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000')
GROUP BY hold_id, meeting_id, held_by, during, expires_at
ORDER BY hold_id LIMIT :limit::integer + 1
