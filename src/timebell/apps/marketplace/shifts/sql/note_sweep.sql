-- Of several who find that there is none, one has its job noted; the others' would be one too many.
INSERT INTO marketplace.sweeps AS w (tenant, job_id) VALUES (:tenant::text, :job_id::uuid)
ON CONFLICT (tenant) DO UPDATE SET job_id = excluded.job_id
WHERE NOT EXISTS (SELECT FROM timebell.jobs j WHERE j.tenant = w.tenant AND j.id = w.job_id)
RETURNING w.tenant
