-- A calendar that is to be read; nothing where the person has as many as anybody may have.
INSERT INTO meetings.calendar_imports AS i (tenant, id, user_id, name, url, status, created_at, updated_at)
SELECT :tenant::text, :id::uuid, :user_id::uuid, :name::text, :url::text, 'waiting', at.now, at.now
FROM (SELECT coalesce(:now::timestamptz, now()) AS now) AS at
WHERE (SELECT count(*) FROM meetings.calendar_imports WHERE tenant = :tenant::text AND user_id = :user_id::uuid)
    < :most::integer
RETURNING i.id
