UPDATE timebell_notify.provider_rates SET next_free_at = :next_free_at::timestamptz WHERE provider = :provider::text
