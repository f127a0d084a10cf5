-- Versions of one key are numbered one after the other. Tenants do not wait for each other, only for what is shipped.
SELECT CASE WHEN :tenant::text = '' THEN
        pg_advisory_xact_lock(hashtextextended('timebell_notify.templates ' || :key::text, 0))
    ELSE
        pg_advisory_xact_lock_shared(hashtextextended('timebell_notify.templates ' || :key::text, 0))
    END,
    pg_advisory_xact_lock(hashtextextended('timebell_notify.templates ' || :key::text || ' of ' || :tenant::text, 0))
