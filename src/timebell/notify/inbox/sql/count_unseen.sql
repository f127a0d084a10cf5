SELECT count(*) FROM timebell_notify.inbox
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND status = 'unseen'
