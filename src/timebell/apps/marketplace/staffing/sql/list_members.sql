-- The members of a company with all their roles.
SELECT m.recipient_id AS id, array_agg(m.role ORDER BY m.role) AS roles
FROM marketplace.company_members m
WHERE m.tenant = :tenant::text AND m.company_id = :company_id::uuid
    AND m.recipient_id > (SELECT coalesce(:after::uuid, '00000000-0000-0000-0000-000000000000'))
GROUP BY m.recipient_id
ORDER BY m.recipient_id LIMIT :limit::integer + 1
