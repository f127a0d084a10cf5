-- What is not going to be applied is looked at no more. What it says may be of somebody whom nobody could erase from here.
UPDATE timebell_notify.provider_reports
SET applied = 'unknown', body = body - 'said'
WHERE provider = :provider::text AND report_id = ANY (:report_ids::text[]) AND applied IS NULL
