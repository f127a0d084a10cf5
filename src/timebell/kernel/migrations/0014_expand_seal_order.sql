-- phase: expand
-- Seals are made in the order of writing, over all tenants. An id begins with a time, and one event from a clock that runs
-- ahead would hide all that come after it. And it is asked often when the last seal was made.
CREATE INDEX IF NOT EXISTS events_written ON timebell.events (written_in, id);
CREATE INDEX IF NOT EXISTS event_seals_made ON timebell.event_seals (sealed_at);
