-- Of those who book one worker at once, one goes on. What only names the worker does not wait.
SELECT id FROM marketplace.workers WHERE tenant = :tenant::text AND id = :id::uuid FOR NO KEY UPDATE
