-- What is said about a worker goes; that somebody of this id was booked and paid for stays.
UPDATE marketplace.workers
SET state = 'Unlisted', trade = '', zip = '', skills = '{}', updated_at = coalesce(:now::timestamptz, now())
WHERE tenant = :tenant::text AND recipient_id = :person::uuid
RETURNING id
