UPDATE timebell.slots SET owner = NULL
WHERE slot = ANY(:slots::smallint[]) AND owner = :incarnation::bigint
RETURNING slot
