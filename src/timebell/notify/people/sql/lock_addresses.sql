-- Whoever gives addresses to a recipient and whoever erases one that has or had them take turns here, so that what the
-- other leaves of the suppression list is seen by the next statement. Those who give do not wait for each other.
SELECT CASE WHEN :is_erasure::boolean THEN pg_advisory_xact_lock(key) ELSE pg_advisory_xact_lock_shared(key) END
FROM (
    SELECT DISTINCT hashtextextended('timebell_notify.addresses ' || address || ' of ' || :tenant::text, 0) AS key
    FROM (SELECT value AS address FROM timebell_notify.addresses
        WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
        UNION SELECT address FROM timebell_notify.deliveries
        WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND address <> '' AND :is_erasure::boolean) own
    ORDER BY key
) keys
