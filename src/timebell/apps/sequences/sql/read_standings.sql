-- How some messages stand by now.
SELECT m.id, m.status FROM unnest(:ids::uuid[]) AS n(id)
JOIN sequences.standings m ON m.tenant = :tenant::text AND m.id = n.id
