-- Whether one search still finds a worker and its user wants to hear of it at once.
SELECT s.id, s.user_id, s.channels, s.timezone
FROM marketplace.saved_searches s
JOIN marketplace.workers w ON w.tenant = s.tenant AND w.id = :worker_id::uuid
WHERE s.tenant = :tenant::text AND s.id = :id::uuid AND s.is_active AND s.instant_enabled AND w.state = 'Listed'
    AND marketplace.fits(s.trade, s.zip_from, s.zip_to, s.skills, s.rate_max, w.trade, w.zip, w.skills, w.hourly_rate)
    AND marketplace.is_free(s.tenant, w.id, s.since, s.before)
