-- Nothing comes back for somebody who is a worker already.
INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, trade, zip, skills, hourly_rate, created_at,
    updated_at)
VALUES (:tenant::text, :id::uuid, :recipient_id::uuid, :company_id::uuid, :trade::text, :zip::text, :skills::text[],
    :hourly_rate::bigint, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant, recipient_id) DO NOTHING
RETURNING id
