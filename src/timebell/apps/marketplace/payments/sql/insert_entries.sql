-- What is posted together has one instant, never before what was written for the booking earlier: whoever posts holds the
-- booking, so that what was true at a past instant stays true.
WITH stamp AS (
    SELECT greatest(coalesce(:now::timestamptz, clock_timestamp()), max(e.at)) AS at
    FROM marketplace.ledger_entries e WHERE e.tenant = :tenant::text AND e.booking_id = :booking_id::uuid
)
INSERT INTO marketplace.ledger_entries (tenant, id, booking_id, at, type, from_place, to_place, amount, currency,
    time_log_id, dispute_id, payment_id, provider_ref)
SELECT :tenant::text, n.id, :booking_id::uuid, s.at, n.type, n.from_place, n.to_place, n.amount, :currency::text,
    n.time_log_id, n.dispute_id, n.payment_id, n.provider_ref
FROM unnest(:ids::uuid[], :types::text[], :from_places::text[], :to_places::text[], :amounts::bigint[],
        :time_log_ids::uuid[], :dispute_ids::uuid[], :payment_ids::uuid[], :provider_refs::text[])
    AS n(id, type, from_place, to_place, amount, time_log_id, dispute_id, payment_id, provider_ref)
CROSS JOIN stamp s
RETURNING id, booking_id, at, type, from_place, to_place, amount, currency, time_log_id, dispute_id, payment_id,
    provider_ref
