-- Ends the lives whose lease ran out, those that nobody renews although it would last for ages, and every life but
-- one's own where the caller knows that it is alone. The row lock settles the race with a renewal: whoever comes
-- second sees what the first has written.
-- Their permits count a little longer: a node that stood still may wake, and ends then what it runs under them. Those
-- whose time is over go with the next burial, and so does what was written in the name of a life that was over. Each death
-- is remembered for a day.
WITH buried AS (
    DELETE FROM timebell.nodes
    WHERE incarnation <> :incarnation::bigint
        AND (:is_alone::boolean OR lease_until <= coalesce(:lease_now::timestamptz, now())
            OR incarnation = ANY(:frozen::bigint[])
                AND lease_until > coalesce(:lease_now::timestamptz, now()) + interval '10 minutes')
    RETURNING incarnation, lease_until
), kept AS (
    UPDATE timebell.permits p
    SET wanted = 0,
        free_at = least(b.lease_until, coalesce(:lease_now::timestamptz, now()))
            + :grace_seconds::double precision * interval '1 second'
    FROM buried b
    WHERE p.incarnation = b.incarnation
), freed AS (
    DELETE FROM timebell.permits
    WHERE (queue, incarnation) IN (
        SELECT p.queue, p.incarnation
        FROM timebell.permits p
        LEFT JOIN timebell.nodes n USING (incarnation)
        WHERE p.free_at <= coalesce(:lease_now::timestamptz, now()) OR p.free_at IS NULL AND n.incarnation IS NULL
        FOR UPDATE OF p SKIP LOCKED
    )
), remembered AS (
    INSERT INTO timebell.node_deaths (incarnation, died_at)
    SELECT incarnation, coalesce(:now::timestamptz, now()) FROM buried
    ON CONFLICT DO NOTHING
), forgotten AS (
    DELETE FROM timebell.node_deaths WHERE EXISTS (SELECT FROM buried) AND incarnation = ANY(ARRAY(
        SELECT o.incarnation FROM timebell.node_deaths o
        WHERE o.died_at < coalesce(:now::timestamptz, now()) - interval '1 day' ORDER BY o.died_at LIMIT 100))
    RETURNING incarnation
), cleared AS (
    DELETE FROM timebell.suspects s USING forgotten f WHERE s.incarnation = f.incarnation
)
SELECT incarnation FROM buried ORDER BY incarnation
