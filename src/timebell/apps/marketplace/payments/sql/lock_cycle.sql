-- Of those who make the first project of a zone at once, one makes its schedules and the others find them.
SELECT pg_advisory_xact_lock(hashtextextended('marketplace.weekly_cycles ' || :timezone::text || ' of ' || :tenant::text, 0))
