-- Of those who add the first insurances of a tenant at once, one makes its schedule and the others find it.
SELECT pg_advisory_xact_lock(hashtextextended('marketplace.insurance_monitors of ' || :tenant::text, 0))
