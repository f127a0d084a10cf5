-- Active insurances of all tenants, by the days that are left.
WITH day AS MATERIALIZED (
    SELECT (coalesce(:now::timestamptz, now()) AT TIME ZONE 'UTC')::date AS day
)
SELECT count(*) FILTER (WHERE p.expiration_date < (SELECT day FROM day)) AS expired,
    count(*) FILTER (WHERE p.expiration_date BETWEEN (SELECT day FROM day) AND (SELECT day + 7 FROM day)) AS week,
    count(*) FILTER (WHERE p.expiration_date BETWEEN (SELECT day + 8 FROM day) AND (SELECT day + 14 FROM day)) AS fortnight,
    count(*) FILTER (WHERE p.expiration_date > (SELECT day + 14 FROM day)) AS month
FROM marketplace.insurance_policies p
WHERE p.is_active AND p.expiration_date <= (SELECT day + 30 FROM day)
