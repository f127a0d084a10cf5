DELETE FROM timebell_notify.approved_senders
WHERE tenant = :tenant::text AND kind = :kind::text AND value = :value::text
RETURNING kind
