-- Somebody is no member any more, or has one role less.
DELETE FROM marketplace.company_members
WHERE tenant = :tenant::text AND company_id = :company_id::uuid AND recipient_id = :recipient_id::uuid
    AND (:role::text IS NULL OR role = :role::text)
RETURNING role
