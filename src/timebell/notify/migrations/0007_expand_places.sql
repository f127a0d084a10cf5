-- phase: expand
-- Who was called and has come keeps its place before those who come later. `turn`: the number of its turn; `last_turn`: that
-- of the turn before, which its tenant had; `kept_until`: for so long others wait for it.

ALTER TABLE timebell_notify.provider_waits
    ADD COLUMN turn bigint, ADD COLUMN last_turn bigint, ADD COLUMN kept_until timestamptz;
