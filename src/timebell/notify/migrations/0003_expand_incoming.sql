-- phase: expand
-- What came in over HTTP and no node has looked at yet, in the order in which it came.

CREATE INDEX provider_reports_incoming ON timebell_notify.provider_reports (received_at) WHERE applied IS NULL;
