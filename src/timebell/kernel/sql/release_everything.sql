-- The nodes that had this state have another one now. Nobody owns a slot, and whoever still thought so is refused by its
-- epoch; what was running is found by the next node and taken for what it is: begun, with an end that nobody knows.
WITH released AS (UPDATE timebell.slots SET owner = NULL, epoch = epoch + 1),
    gone AS (DELETE FROM timebell.nodes),
    deaths AS (DELETE FROM timebell.node_deaths),
    suspects AS (DELETE FROM timebell.suspects),
    permits AS (DELETE FROM timebell.permits),
    breakers AS (DELETE FROM timebell.breakers)
SELECT setval('timebell.incarnations', nextval('timebell.incarnations') + 1000)
