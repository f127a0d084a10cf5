INSERT INTO reminders.schedule_feeds AS f (tenant, recipient_id, generation)
VALUES (:tenant::text, :recipient_id::uuid, 2)
ON CONFLICT (tenant, recipient_id) DO UPDATE SET generation = f.generation + 1
RETURNING f.generation
