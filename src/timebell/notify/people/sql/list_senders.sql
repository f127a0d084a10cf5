SELECT kind, value, actor, approved_at FROM timebell_notify.approved_senders
WHERE tenant = :tenant::text ORDER BY kind, value LIMIT :most::integer
