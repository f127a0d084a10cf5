INSERT INTO timebell.permits (queue, incarnation, held, wanted)
VALUES (:queue::text, :incarnation::bigint, :held::integer, :wanted::integer)
ON CONFLICT (queue, incarnation) DO UPDATE SET held = excluded.held, wanted = excluded.wanted
