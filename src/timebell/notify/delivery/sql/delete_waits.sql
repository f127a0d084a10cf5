DELETE FROM timebell_notify.provider_waits WHERE provider = :provider::text AND notification_id = ANY (:ids::uuid[])
