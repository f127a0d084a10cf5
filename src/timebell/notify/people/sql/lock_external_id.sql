-- Whoever gives somebody this id of the tenant's own waits here for whoever else is about to, and then sees the outcome.
SELECT pg_advisory_xact_lock(hashtextextended('timebell_notify.recipients ' || :external_id::text || ' of '
    || :tenant::text, 0))
