-- What was answered to a caller is forgotten at once; the rows are removed with those whose day is over.
UPDATE timebell_web.replies
SET body = '', headers = '{}', expires_at = least(expires_at, coalesce(:now::timestamptz, now()))
WHERE tenant = :tenant AND caller = :caller
