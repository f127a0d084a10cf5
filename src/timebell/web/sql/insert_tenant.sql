-- A new tenant; answers with nothing where the name is taken.
INSERT INTO timebell_web.tenants (tenant, name, created_at)
VALUES (:tenant, :name, coalesce(:now::timestamptz, now()))
ON CONFLICT (tenant) DO NOTHING
RETURNING tenant, name, created_at
