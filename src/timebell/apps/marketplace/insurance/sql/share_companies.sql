-- Whoever books between some companies waits for those who change something about their insurances, or stop what one of them
-- has, and these wait for whoever books. Those who book at once do not wait for each other.
SELECT id FROM marketplace.companies WHERE tenant = :tenant::text AND id = ANY (:ids::uuid[]) ORDER BY id FOR SHARE
