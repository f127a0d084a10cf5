-- phase: expand
-- Of a message that was taken back while nobody knew whether it had arrived, the reason is that no answer came, and not that it
-- was withdrawn: that would say that it was not sent.

CREATE OR REPLACE VIEW sequences.standings WITH (security_invoker = true) AS
SELECT m.tenant, m.id, m.subject, m.sequence_id, m.entry, m.step, m.recipient_id, m.template, m.due_at, m.job_id,
    m.created_at, m.settled_at, coalesce(told.channel, m.channel) AS channel, told.channel IS NOT NULL AS is_channel_used,
    CASE WHEN m.status <> 'scheduled' THEN m.status WHEN owed.is_running THEN 'sending'
        WHEN owed.is_running IS NOT NULL THEN 'scheduled' WHEN dead.is_dead THEN 'failed'
        ELSE coalesce(CASE WHEN n.state IN ('sent', 'delivered', 'suppressed') THEN 'sent'
            WHEN n.state IN ('failed', 'uncertain') THEN 'failed' WHEN n.state = 'withdrawn' THEN 'cancelled'
            WHEN n.state = 'skipped' THEN 'skipped' END,
            CASE l.state WHEN 'cancelled' THEN 'cancelled' WHEN 'expired' THEN 'skipped' WHEN 'skipped' THEN 'skipped'
            ELSE 'sent' END) END AS status,
    CASE WHEN m.status <> 'scheduled' THEN m.reason WHEN owed.is_running IS NOT NULL THEN n.reason
        WHEN dead.is_dead THEN 'given_up' WHEN n.state IN ('sent', 'delivered') THEN NULL
        WHEN n.state = 'uncertain' THEN coalesce(told.doubt, 'no_answer')
        ELSE coalesce(n.reason, l.reason, m.reason) END AS reason,
    CASE WHEN m.status <> 'scheduled' THEN m.sent_at ELSE told.sent_at END AS sent_at,
    CASE WHEN m.status <> 'scheduled' THEN m.attempt_count ELSE coalesce(told.attempt_count, 0) END AS attempt_count,
    m.status = 'scheduled' AND owed.is_running IS NULL AND dead.is_dead IS NULL AS is_over
FROM sequences.messages m
LEFT JOIN LATERAL (
    SELECT j.started_by IS NOT NULL AS is_running FROM timebell.jobs j
    WHERE j.tenant = m.tenant AND j.id = m.job_id AND m.status = 'scheduled' LIMIT 1
) owed ON true
LEFT JOIN LATERAL (
    SELECT true AS is_dead FROM timebell.dead_jobs d
    WHERE d.tenant = m.tenant AND d.id = m.job_id AND m.status = 'scheduled' AND owed.is_running IS NULL LIMIT 1
) dead ON true
LEFT JOIN LATERAL (
    SELECT s.state, s.reason FROM timebell_notify.standing s
    WHERE s.tenant = m.tenant AND s.id = m.job_id AND m.status = 'scheduled' LIMIT 1
) n ON true
LEFT JOIN LATERAL (
    SELECT g.state, g.reason FROM timebell.job_log g
    WHERE g.tenant = m.tenant AND g.id = m.job_id AND g.state <> 'pending' AND m.status = 'scheduled'
        AND owed.is_running IS NULL AND n.state IS NULL
    ORDER BY g.logged_at DESC, g.version DESC LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT (array_agg(v.channel ORDER BY v.state IN ('sent', 'delivered', 'suppressed') DESC, v.updated_at DESC))[1] AS channel,
        min(coalesce(v.sent_at, v.updated_at)) FILTER (WHERE v.state IN ('sent', 'delivered', 'suppressed')) AS sent_at,
        sum(v.attempt_count)::integer AS attempt_count,
        min(v.reason) FILTER (WHERE v.state = 'uncertain') AS doubt
    FROM timebell_notify.deliveries v
    WHERE v.tenant = m.tenant AND v.notification_id = m.job_id AND v.state <> 'skipped' AND m.status = 'scheduled'
        AND n.state IS NOT NULL
) told ON true;
