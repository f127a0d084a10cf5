-- phase: expand
-- Who may call over HTTP, and what was answered to whom.

CREATE TABLE timebell_web.tenants (
    tenant     text PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL
);

-- Of a key only the digest is kept; the key itself is shown once, to whoever makes it. prefix is its beginning, by which
-- people know it again.
CREATE TABLE timebell_web.api_keys (
    tenant       text NOT NULL,
    id           uuid NOT NULL,
    name         text NOT NULL,
    prefix       text NOT NULL,
    digest       bytea NOT NULL UNIQUE,
    scope        text NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    is_test      boolean NOT NULL DEFAULT false,
    actor        text,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_on date,
    PRIMARY KEY (tenant, id)
);

-- What was answered to a request with an idempotency key, written in the transaction of its effect.
CREATE TABLE timebell_web.replies (
    tenant      text NOT NULL,
    caller      text NOT NULL,
    operation   text NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,
    status      smallint NOT NULL,
    media_type  text,
    headers     jsonb NOT NULL,
    body        bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, caller, operation, key)
);
CREATE INDEX replies_expiry ON timebell_web.replies (expires_at);

-- Where the clock of a sandbox stands; no other database has a row here.
CREATE TABLE timebell_web.sandbox (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    now_at  timestamptz NOT NULL
);

-- The wall between tenants, as in the kernel: the API's role sees and writes the rows of one tenant alone.
DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['timebell_web.tenants', 'timebell_web.api_keys', 'timebell_web.replies'] LOOP
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
    END LOOP;
END $$;
CREATE POLICY api ON timebell_web.api_keys TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));
CREATE POLICY api ON timebell_web.replies TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

-- Until a key is found nobody knows whose request it is. Who names its digest has the key.
CREATE POLICY api_shown ON timebell_web.api_keys FOR SELECT TO {api_role}
    USING (digest = (SELECT decode(current_setting('timebell.key_digest', true), 'hex')));

-- A tenant sees itself; the one that administers the others sees and writes them all.
CREATE POLICY api_own ON timebell_web.tenants FOR SELECT TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));
CREATE POLICY api ON timebell_web.tenants TO {api_role}
    USING ((SELECT current_setting('timebell.tenant', true)) = 'default');

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA timebell_web TO {app_role};
GRANT SELECT, INSERT, UPDATE ON timebell_web.tenants, timebell_web.api_keys, timebell_web.replies TO {api_role};
GRANT SELECT ON timebell_web.sandbox TO {api_role};
GRANT SELECT ON ALL TABLES IN SCHEMA timebell_web TO {read_role};
