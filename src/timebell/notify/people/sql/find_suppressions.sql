-- What is suppressed of one address, under its own name and under what stands for it after an erasure.
SELECT channel, address, class, reason, source, created_at
FROM timebell_notify.suppressions
WHERE tenant = :tenant::text AND channel = :channel::text
    AND address IN (:address::text, 'sha256:' || encode(sha256(convert_to(:tenant::text || chr(10) || :channel::text
        || chr(10) || :address::text, 'UTF8')), 'hex'))
ORDER BY address, class
