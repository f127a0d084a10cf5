-- Subjects of which nothing happened for long, and about which nothing is owed, with all that is kept about them.
WITH old AS (
    SELECT s.tenant, s.subject FROM sequences.subjects s
    WHERE greatest(s.updated_at, coalesce(s.ends_at, s.starts_at))
            < coalesce(:now::timestamptz, now()) - make_interval(days => :days::integer)
        AND NOT EXISTS (SELECT FROM sequences.messages m
            WHERE m.tenant = s.tenant AND m.subject = s.subject AND m.status = 'scheduled')
    ORDER BY greatest(s.updated_at, coalesce(s.ends_at, s.starts_at)) LIMIT :limit::integer
    FOR UPDATE SKIP LOCKED
), messages AS (
    DELETE FROM sequences.messages m USING old o WHERE m.tenant = o.tenant AND m.subject = o.subject
), people AS (
    DELETE FROM sequences.subject_people p USING old o WHERE p.tenant = o.tenant AND p.subject = o.subject
), enrolments AS (
    DELETE FROM sequences.enrolments e USING old o WHERE e.tenant = o.tenant AND e.subject = o.subject
)
SELECT o.tenant, o.subject FROM old o
