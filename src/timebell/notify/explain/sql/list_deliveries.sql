-- Deliveries, the oldest first, without their attempts and what they said. One call looks at no more than look_max of them.
SELECT id, is_match, is_end, (to_jsonb(delivery) || jsonb_build_object('content', NULL))::text AS line FROM (
    SELECT d.id, d AS delivery,
        (:state::text IS NULL OR d.state = :state::text)
            AND (:channel::text IS NULL OR d.channel = :channel::text) AS is_match,
        row_number() OVER (ORDER BY d.id) = :look_max::integer AS is_end
    FROM timebell_notify.deliveries d
    WHERE d.tenant = :tenant::text
        AND (:recipient_id::uuid IS NULL OR d.recipient_id = :recipient_id::uuid)
        AND (:notification_id::uuid IS NULL OR d.notification_id = :notification_id::uuid)
        AND d.id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY d.id LIMIT :look_max::integer
) looked
WHERE is_match OR is_end
ORDER BY id LIMIT :limit::integer + 1
