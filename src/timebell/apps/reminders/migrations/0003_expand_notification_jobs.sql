-- phase: expand
-- Who is reminded of what and when, as the source calls it: a line for each occurrence and offset. It is a view of what the
-- kernel owes and of what notify told, so that there is nothing beside them that could say otherwise.

-- An offset that was muted and is wanted again, or whose occurrence was moved, has had more than one job: the one that is
-- owed counts, or the last that came to an end. It is sent from when the first delivery arrived, be it that another is still
-- tried; every other end is canceled_at, so that a line with neither is still owed. What was told so long ago that notify
-- has forgotten it is told by the end of its job.
CREATE VIEW reminders.notification_jobs WITH (security_invoker = true) AS
SELECT DISTINCT ON (o.id, step.minutes)
    j.id, person.id AS user_id, s.id AS schedule_id, o.id AS occurrence_id, step.minutes AS offset_minutes,
    j.due_at AS planned_send_at, told.at AS sent_at, CASE WHEN told.at IS NULL THEN j.finished_at END AS canceled_at,
    coalesce(j.payload, '{}') AS payload, s.tenant
FROM timebell.schedules s
CROSS JOIN LATERAL (
    -- Anybody may name an owner, also one that only looks like a person of this app.
    SELECT substring(s.owner FROM '^reminders:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$')::uuid AS id
) person
JOIN timebell.occurrences o ON o.schedule_id = s.id AND o.tenant = s.tenant
CROSS JOIN LATERAL (
    SELECT w.id, w.step, w.due_at, w.payload, true AS is_owed, 'pending' AS state, NULL::timestamptz AS finished_at
    FROM timebell.jobs w
    WHERE w.tenant = s.tenant AND w.subject = 'occurrence:' || o.id
    UNION ALL
    SELECT l.id, l.step, l.due_at, l.payload, false, l.state, l.finished_at
    FROM timebell.job_log l
    WHERE l.tenant = s.tenant AND l.subject = 'occurrence:' || o.id AND l.state <> 'pending'
        AND NOT EXISTS (SELECT FROM timebell.jobs w WHERE w.id = l.id)
) j
CROSS JOIN LATERAL (SELECT substring(j.step FROM '^before-(\d{1,9})$')::integer AS minutes) step
LEFT JOIN timebell_notify.notifications n ON n.tenant = s.tenant AND n.id = j.id
CROSS JOIN LATERAL (
    SELECT coalesce(min(v.sent_at), CASE WHEN n.id IS NULL AND j.state = 'done' THEN j.finished_at END) AS at
    FROM timebell_notify.deliveries v
    WHERE v.tenant = s.tenant AND v.notification_id = j.id AND v.state IN ('sent', 'delivered')
) told
WHERE person.id IS NOT NULL AND step.minutes IS NOT NULL
ORDER BY o.id, step.minutes, j.is_owed DESC, j.finished_at DESC, j.id DESC;

GRANT SELECT ON reminders.notification_jobs TO {app_role}, {api_role}, {read_role};
