-- A worker as long as they are listed since that instant, and were not listed anew.
SELECT w.id, w.recipient_id, w.company_id, w.trade, w.zip, w.skills, w.hourly_rate, w.listed_at
FROM marketplace.workers w
WHERE w.tenant = :tenant::text AND w.id = :id::uuid AND w.state = 'Listed' AND w.listed_at = :listed_at::timestamptz
