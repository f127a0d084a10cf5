-- The newest event that has a seal.
SELECT event_id FROM timebell.event_seals ORDER BY event_id DESC LIMIT 1
