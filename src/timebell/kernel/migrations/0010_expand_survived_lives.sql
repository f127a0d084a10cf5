-- phase: expand
-- The lives of the same process before this one, the latest first. They ended because a lease ran out, and not because
-- anybody died: whatever ran in them did no harm.
ALTER TABLE timebell.nodes ADD COLUMN survived bigint[] NOT NULL DEFAULT '{}';
