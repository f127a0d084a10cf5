-- phase: expand
-- How often a provider turned a delivery away because of its rate limit, and said when to come back. That uses up no attempt,
-- and is counted apart so that it comes to an end.

ALTER TABLE timebell_notify.deliveries ADD COLUMN rate_limited_count integer NOT NULL DEFAULT 0;
