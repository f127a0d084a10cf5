-- Through which provider the last message left, or was captured, whoever's it was.
SELECT provider
FROM timebell_notify.deliveries
WHERE provider NOT IN ('', 'inbox')
ORDER BY id DESC LIMIT 1
