-- Whoever was warned of a date long ago is not warned of it again.
DELETE FROM marketplace.insurance_warnings w
WHERE (w.tenant, w.policy_id, w.expiration_date, w.threshold, w.recipient_id, w.channel) IN (
    SELECT o.tenant, o.policy_id, o.expiration_date, o.threshold, o.recipient_id, o.channel
    FROM marketplace.insurance_warnings o
    WHERE o.expiration_date < (coalesce(:now::timestamptz, now()) AT TIME ZONE 'UTC')::date - :days::integer
    ORDER BY o.expiration_date LIMIT :limit::integer)
RETURNING w.policy_id
