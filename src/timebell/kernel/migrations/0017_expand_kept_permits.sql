-- phase: expand

-- Until when the permits of a life that is over count all the same: what ran under them may still be running. NULL while
-- the node lives.
ALTER TABLE timebell.permits ADD COLUMN free_at timestamptz;
