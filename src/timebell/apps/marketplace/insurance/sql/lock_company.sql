-- Of those who change something about the insurances of one company at once, one goes on. What only names the company does
-- not wait.
SELECT id FROM marketplace.companies WHERE tenant = :tenant::text AND id = :id::uuid FOR NO KEY UPDATE
