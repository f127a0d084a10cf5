-- The steps of a subject that came to an end, by step and planned instant.
SELECT step, due_at, state FROM timebell.agenda_done
WHERE tenant = :tenant::text AND subject = :subject::text
ORDER BY step, due_at
