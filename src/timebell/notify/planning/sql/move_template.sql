-- From now on, what was planned with another version of the template is told with this one.
INSERT INTO timebell_notify.template_moves AS m (tenant, key, version)
VALUES (:tenant::text, :key::text, :version::integer)
ON CONFLICT (tenant, key) DO UPDATE SET version = excluded.version, number = m.number + 1
