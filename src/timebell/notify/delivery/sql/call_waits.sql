-- The turn of these has come: each is called, its tenant had the turn, and the provider counts on.
WITH called AS (
    SELECT * FROM unnest(:ids::uuid[], :tenants::text[], :turns::bigint[], :last_turns::bigint[])
        AS called(id, tenant, turn, last_turn)
), turns AS (
    INSERT INTO timebell_notify.provider_turns AS t (provider, tenant, last_turn)
    SELECT :provider::text, called.tenant, max(called.turn) FROM called GROUP BY called.tenant
    ON CONFLICT (provider, tenant) DO UPDATE SET last_turn = excluded.last_turn
), counted AS (
    UPDATE timebell_notify.provider_rates r SET turn = (SELECT max(called.turn) FROM called)
    WHERE r.provider = :provider::text
)
UPDATE timebell_notify.provider_waits w
SET called_at = coalesce(:now::timestamptz, clock_timestamp()), turn = called.turn, last_turn = called.last_turn
FROM called WHERE w.provider = :provider::text AND w.notification_id = called.id
