-- How many messages of a sequence stand how, for each step. What is not due yet is scheduled, and what was settled stands as it
-- was written down; only of what is due and was not settled, which is little, is it asked what became of it.
SELECT c.step, c.status, sum(c.count)::bigint AS count
FROM (
    SELECT m.step, m.status, count(*) AS count FROM sequences.messages m
    WHERE m.tenant = :tenant::text AND m.sequence_id = :sequence_id::uuid
        AND (m.status <> 'scheduled' OR m.due_at > coalesce(:now::timestamptz, now()))
    GROUP BY m.step, m.status
    UNION ALL
    SELECT s.step, s.status, count(*) FROM (
        SELECT m.id FROM sequences.messages m
        WHERE m.tenant = :tenant::text AND m.sequence_id = :sequence_id::uuid AND m.status = 'scheduled'
            AND m.due_at <= coalesce(:now::timestamptz, now())
        OFFSET 0
    ) due JOIN sequences.standings s ON s.tenant = :tenant::text AND s.id = due.id
    GROUP BY s.step, s.status
) c
GROUP BY c.step, c.status
