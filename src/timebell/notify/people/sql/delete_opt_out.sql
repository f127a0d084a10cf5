DELETE FROM timebell_notify.opt_outs
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND topic = :topic::text
    AND channel = :channel::text
RETURNING topic
