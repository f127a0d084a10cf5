-- Forgets replies that have expired, a bounded number at a time.
WITH gone AS (
    DELETE FROM timebell_web.replies r
    WHERE (r.tenant, r.caller, r.operation, r.key) IN (
        SELECT tenant, caller, operation, key FROM timebell_web.replies
        WHERE expires_at <= coalesce(:now::timestamptz, now())
        ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
