-- phase: expand
-- What the pruner finds old rows by. What was told is found by notifications_settled, and reports by provider_reports_received.

-- A notification whose job was taken back is never settled. It is old when it would long have been told.
CREATE INDEX IF NOT EXISTS notifications_unsettled ON timebell_notify.notifications (due_at, id) WHERE settled_at IS NULL;
-- Nothing ever asked for what this one has.
DROP INDEX timebell_notify.deliveries_uncertain;

CREATE INDEX IF NOT EXISTS digests_closing ON timebell_notify.digests (closes_at, id);
