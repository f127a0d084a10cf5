-- phase: expand
-- Those who could not be told of what does not wait: operators are told of them while that is new.
CREATE INDEX notifications_not_told ON timebell_notify.notifications (settled_at)
    WHERE state IN ('failed', 'uncertain') AND urgency <> 'normal';
