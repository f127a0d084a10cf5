INSERT INTO timebell.event_seals (tenant, number, event_id, hash, sealed_at)
SELECT s.tenant, s.number, s.event_id, s.hash, coalesce(:now::timestamptz, now())
FROM unnest(:tenants::text[], :numbers::bigint[], :event_ids::uuid[], :hashes::bytea[])
    AS s(tenant, number, event_id, hash)
