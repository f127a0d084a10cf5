-- Whose requests are looked at next.
SELECT tenant FROM scheduler.requests WHERE tenant > :after::text ORDER BY tenant LIMIT 1
