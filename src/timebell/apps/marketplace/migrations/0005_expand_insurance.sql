-- phase: expand
-- The place that is kept for insurance.
SELECT;
