-- phase: expand
-- The order in which events come into sight, for whoever follows them. An id is drawn before the commit, so a lower one may
-- appear when a higher one was read already. The number of the writing transaction can be compared with the oldest that
-- is still under way: below that, nothing new appears. What was there before counts as the beginning.
--
-- These numbers belong to the server that gave them: `timebell restore` gives new ones, and who restores a dump of
-- another kind elsewhere sets them all to 0.

-- A constant first, which every row has without being written anew, and only then what is asked for each row.
ALTER TABLE timebell.events ADD COLUMN written_in xid8 NOT NULL DEFAULT '0';
ALTER TABLE timebell.events ALTER COLUMN written_in SET DEFAULT pg_current_xact_id();
CREATE INDEX events_order ON timebell.events (tenant, written_in, id);
