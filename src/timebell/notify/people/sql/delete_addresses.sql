-- Takes addresses from a recipient, by their ids.
DELETE FROM timebell_notify.addresses
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid AND id = ANY (:ids::uuid[])
