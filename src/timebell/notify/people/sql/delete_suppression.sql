-- An address may be sent to again, under its own name and under what stands for it after an erasure.
DELETE FROM timebell_notify.suppressions
WHERE tenant = :tenant::text AND channel = :channel::text AND class = :class::text
    AND address IN (:address::text, 'sha256:' || encode(sha256(convert_to(:tenant::text || chr(10) || :channel::text
        || chr(10) || :address::text, 'UTF8')), 'hex'))
RETURNING address
