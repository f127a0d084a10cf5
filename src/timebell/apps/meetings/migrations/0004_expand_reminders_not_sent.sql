-- phase: expand
-- A reminder of which nobody knows whether it was taken is not called sent. The source has no word for it: it is failed, and
-- the reason says that no answer came. One that another channel took is sent. Nor is one sent by standing in the inbox
-- while its mail waited: where the mail was too late it is failed, and where the meeting was called off meanwhile it is
-- cancelled. Only where the inbox was all that was asked is it sent.

CREATE OR REPLACE VIEW meetings.reminder_jobs WITH (security_invoker = true) AS
SELECT j.id, m.id AS meeting_id, m.tenant AS organization_id, split_part(j.step, ':', 2)::uuid AS recipient_id,
    split_part(j.step, ':', 1) AS reminder_type, j.due_at AS scheduled_at,
    CASE WHEN j.is_owed THEN 'pending' WHEN d.is_told_outside THEN 'sent' WHEN d.doubt IS NOT NULL THEN 'failed'
        WHEN j.state = 'cancelled' THEN 'cancelled'
        WHEN d.is_failed OR j.state IN ('expired', 'dead') OR n.reason = 'expired' OR n.settled_at >= n.expires_at
        THEN 'failed' WHEN d.is_told_inside THEN 'sent' ELSE 'cancelled' END AS status,
    CASE WHEN NOT j.is_owed AND NOT coalesce(d.is_told_outside, false)
        THEN coalesce(d.doubt, CASE WHEN j.state = 'cancelled' THEN j.reason
            WHEN n.settled_at >= n.expires_at THEN 'expired' END, d.reason, j.reason, n.reason)
        END AS reason,
    coalesce(d.failure_count, 0) AS attempts, d.last_attempt_at,
    CASE WHEN j.is_owed THEN j.run_at END AS next_attempt_at, coalesce(d.channels, '{}') AS channels,
    n.id AS notification_id, coalesce(n.created_at, j.noted_at) AS created_at,
    greatest(j.noted_at, d.updated_at) AS updated_at
FROM meetings.meeting_requests m
CROSS JOIN LATERAL (
    SELECT o.id, o.step, o.due_at, o.run_at, o.created_at AS noted_at, true AS is_owed, 'pending' AS state,
        NULL::text AS reason
    FROM timebell.jobs o
    WHERE o.tenant = m.tenant AND o.subject = 'meeting:' || m.id AND o.step LIKE '%\_before:%'
    UNION ALL (
        SELECT DISTINCT ON (l.id) l.id, l.step, l.due_at, NULL::timestamptz, l.finished_at, false, l.state, l.reason
        FROM timebell.job_log l
        WHERE l.tenant = m.tenant AND l.subject = 'meeting:' || m.id AND l.step LIKE '%\_before:%'
            AND l.state NOT IN ('pending', 'skipped') AND NOT EXISTS (SELECT FROM timebell.jobs o WHERE o.id = l.id)
        ORDER BY l.id, l.logged_at DESC, l.version DESC
    )
) j
LEFT JOIN timebell_notify.notifications n ON n.tenant = m.tenant AND n.id = j.id
LEFT JOIN LATERAL (
    SELECT bool_or(v.channel <> 'inbox' AND v.state IN ('sent', 'delivered', 'suppressed')) AS is_told_outside,
        bool_or(v.channel = 'inbox' AND v.state = 'sent') AS is_told_inside,
        bool_or(v.state = 'failed' OR (v.state = 'skipped' AND v.reason = 'exhausted')) AS is_failed,
        min(v.reason) FILTER (WHERE v.state = 'failed' OR v.reason = 'exhausted') AS reason,
        min(coalesce(v.reason, 'no_answer')) FILTER (WHERE v.state = 'uncertain') AS doubt,
        max(v.failure_count) AS failure_count, max(t.started_at) AS last_attempt_at, max(v.updated_at) AS updated_at,
        array_agg(DISTINCT v.channel) FILTER (WHERE v.state <> 'skipped') AS channels
    FROM timebell_notify.deliveries v
    LEFT JOIN timebell_notify.attempts t ON t.tenant = v.tenant AND t.delivery_id = v.id
    WHERE v.tenant = m.tenant AND v.notification_id = j.id
) d ON true;
