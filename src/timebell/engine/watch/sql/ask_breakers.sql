-- The circuit breakers that are not closed, in the order of their names.
SELECT b.destination, b.failure_count
FROM timebell.breakers b
WHERE b.destination COLLATE "C" > :after::text
ORDER BY b.destination COLLATE "C" LIMIT :limit::integer
