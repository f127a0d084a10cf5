-- These were called and came before their instant: until a little after it, nobody who comes later goes before them.
UPDATE timebell_notify.provider_waits w SET kept_until = kept.until
FROM unnest(:ids::uuid[], :untils::timestamptz[]) AS kept(id, until)
WHERE w.provider = :provider::text AND w.notification_id = kept.id
