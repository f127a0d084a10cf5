-- phase: expand
-- What reads the context of a notification when it is told, where it waits in a digest: its own job has ended by then.

ALTER TABLE timebell_notify.notifications ADD COLUMN context_from text;
