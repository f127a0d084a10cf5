-- phase: expand
-- Which kinds a node has a handler for, so that the others know what it leaves in the slots that it owns. Null where a
-- node of an older release does not say.
ALTER TABLE timebell.nodes ADD COLUMN kinds text[];
