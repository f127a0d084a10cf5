-- Which steps of these subjects have a job that has not come to its end.
SELECT j.subject, j.step FROM timebell.jobs j
WHERE j.tenant = :tenant::text AND j.subject = ANY (:subjects::text[]) AND j.step IS NOT NULL
