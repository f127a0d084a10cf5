-- Until the transaction ends nobody else takes or frees time of these people.
SELECT recipient_id FROM meetings.people
WHERE tenant = :tenant::text AND recipient_id = ANY (:people::uuid[])
ORDER BY recipient_id FOR UPDATE
