DELETE FROM timebell_notify.provider_turns WHERE provider = :provider::text
