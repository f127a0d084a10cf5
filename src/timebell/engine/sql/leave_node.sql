-- A node ends its life itself: nothing it held was abandoned.
WITH released AS (
    UPDATE timebell.slots SET owner = NULL WHERE owner = :incarnation::bigint
), freed AS (
    DELETE FROM timebell.permits WHERE incarnation = :incarnation::bigint
)
DELETE FROM timebell.nodes WHERE incarnation = :incarnation::bigint
