-- Whose questions this node asks now: of these apps, those that nobody has asked for so long. A clock that was set back
-- is no reason to wait for the old time.
INSERT INTO timebell.alert_rounds AS r (app, asked_at)
SELECT a.app, coalesce(:now::timestamptz, now()) FROM unnest(:apps::text[]) AS a(app) ORDER BY a.app
ON CONFLICT (app) DO UPDATE SET asked_at = excluded.asked_at
WHERE r.asked_at <= excluded.asked_at - :seconds::double precision * interval '1 second' OR r.asked_at > excluded.asked_at
RETURNING r.app
