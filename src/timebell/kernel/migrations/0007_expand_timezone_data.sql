-- phase: expand
-- Which version of the timezone data was the first with what the plans stand on, so that newer data re-plans only what
-- it changes; and occurrences by age, so that the pruner finds those that are over.

-- Older code does not know the column, and what it brings counts as the oldest.
ALTER TABLE timebell.timezones ADD COLUMN data_version text NOT NULL DEFAULT '';
UPDATE timebell.timezones SET data_version = version;

DROP INDEX timebell.occurrences_of_tenant;
CREATE INDEX occurrences_age ON timebell.occurrences (occurs_at, id);
