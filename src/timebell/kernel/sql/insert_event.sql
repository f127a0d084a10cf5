INSERT INTO timebell.events (id, tenant, name, subject, actor, data, correlation_id, occurred_at)
VALUES (:id::uuid, :tenant::text, :name::text, :subject::text, :actor::text, :data::text::jsonb,
    :correlation_id::text, coalesce(:occurred_at::timestamptz, :now::timestamptz, now()))
