-- The turn of these has come: each is called, its tenant had the turn, and the provider counts on.
WITH turns AS (
    INSERT INTO timebell_notify.provider_turns AS t (provider, tenant, last_turn)
    SELECT :provider::text, called.tenant, max(called.turn)
    FROM unnest(:tenants::text[], :turns::bigint[]) AS called(tenant, turn) GROUP BY called.tenant
    ON CONFLICT (provider, tenant) DO UPDATE SET last_turn = excluded.last_turn
), counted AS (
    UPDATE timebell_notify.provider_rates r SET turn = (SELECT max(turn) FROM unnest(:turns::bigint[]) AS turn)
    WHERE r.provider = :provider::text
)
UPDATE timebell_notify.provider_waits w SET called_at = coalesce(:now::timestamptz, clock_timestamp())
WHERE w.provider = :provider::text AND w.notification_id = ANY (:ids::uuid[])
