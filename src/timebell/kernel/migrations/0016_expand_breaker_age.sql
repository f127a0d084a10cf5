-- phase: expand

-- Finds the breakers that nobody asks about any more.
CREATE INDEX breakers_age ON timebell.breakers (open_until);
