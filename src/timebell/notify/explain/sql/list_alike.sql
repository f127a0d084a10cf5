-- What a recipient was told with a template about an instant, among the last look_max that it was told at all.
SELECT looked.id FROM (
    SELECT n.id, n.template, n.due_at FROM timebell_notify.notifications n
    WHERE n.tenant = :tenant::text AND n.recipient_id = :recipient_id::uuid
    ORDER BY n.id DESC LIMIT :look_max::integer
) looked
WHERE looked.template = :template::text AND looked.due_at >= :from_at::timestamptz
    AND looked.due_at <= :until_at::timestamptz
ORDER BY looked.due_at, looked.id LIMIT :limit::integer
