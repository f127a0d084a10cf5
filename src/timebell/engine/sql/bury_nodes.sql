-- Ends the lives whose lease ran out, those that nobody renews although it would last for ages, and every life but
-- one's own where the caller knows that it is alone. The row lock settles the race with a renewal: whoever comes
-- second sees what the first has written.
WITH buried AS (
    DELETE FROM timebell.nodes
    WHERE incarnation <> :incarnation::bigint
        AND (:is_alone::boolean OR lease_until <= coalesce(:lease_now::timestamptz, now())
            OR incarnation = ANY(:frozen::bigint[])
                AND lease_until > coalesce(:lease_now::timestamptz, now()) + interval '10 minutes')
    RETURNING incarnation
), freed AS (
    DELETE FROM timebell.permits p USING buried b WHERE p.incarnation = b.incarnation
)
SELECT incarnation FROM buried ORDER BY incarnation
