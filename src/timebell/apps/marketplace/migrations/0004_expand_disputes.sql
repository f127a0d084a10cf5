-- phase: expand
-- The place that is kept for disputes.
SELECT;
