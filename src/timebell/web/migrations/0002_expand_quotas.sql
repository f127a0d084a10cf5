-- phase: expand
-- How much a tenant may have, where the operator decided otherwise than the settings: a number for each quota that has one of
-- its own. Only the tenant that administers the others writes here.
ALTER TABLE timebell_web.tenants ADD COLUMN quotas jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(quotas) = 'object');
