-- Whether somebody looks through the tenant's shifts every hour.
SELECT EXISTS (SELECT FROM marketplace.sweeps w JOIN timebell.jobs j ON j.tenant = w.tenant AND j.id = w.job_id
    WHERE w.tenant = :tenant::text) AS has_one
