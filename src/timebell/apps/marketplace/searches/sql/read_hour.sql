SELECT coalesce(:now::timestamptz, now()) AS now
