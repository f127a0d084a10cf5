INSERT INTO timebell.kinds (kind, queue, mode, payload_bytes_max)
SELECT k.kind, k.queue, k.mode, :payload_bytes_max::integer
FROM unnest(:kinds::text[], :queues::text[], :modes::text[]) AS k(kind, queue, mode)
ON CONFLICT (kind) DO UPDATE SET queue = excluded.queue, mode = excluded.mode,
    payload_bytes_max = excluded.payload_bytes_max
WHERE (kinds.queue, kinds.mode, kinds.payload_bytes_max)
    IS DISTINCT FROM (excluded.queue, excluded.mode, excluded.payload_bytes_max)
