-- Of those who are the first of a zone at once, one makes its schedule and the others find it.
SELECT pg_advisory_xact_lock(hashtextextended('marketplace.digest_cycles ' || :timezone::text || ' of ' || :tenant::text, 0))
