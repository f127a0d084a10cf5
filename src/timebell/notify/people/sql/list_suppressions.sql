-- The suppression list of a tenant in the order of its key, and one more than asked for if there are more.
SELECT channel, address, class, reason, source, created_at
FROM timebell_notify.suppressions
WHERE tenant = :tenant::text
    AND (channel, address, class) > (:after_channel::text, :after_address::text, :after_class::text)
ORDER BY channel, address, class LIMIT :limit::integer + 1
