-- Future occurrences that there are no more. What was sent about them stays in the log.
DELETE FROM timebell.occurrences WHERE id = ANY(:ids::uuid[])
