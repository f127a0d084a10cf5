-- As read_agenda_done, for many subjects.
SELECT subject, step, due_at, state FROM timebell.agenda_done
WHERE tenant = :tenant::text AND subject = ANY(:subjects::text[])
ORDER BY subject, step, due_at
