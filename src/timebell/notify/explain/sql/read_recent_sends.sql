-- When a recipient was last reached, for somebody who only asks.
SELECT channel, sent_ats FROM timebell_notify.recent_sends
WHERE tenant = :tenant::text AND recipient_id = :recipient_id::uuid
