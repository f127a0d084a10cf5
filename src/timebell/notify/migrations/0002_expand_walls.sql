-- phase: expand
-- The wall between tenants, as in the kernel: the API's role sees and writes the rows of one tenant alone.

DO $$
DECLARE
    place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['recipients', 'addresses', 'opt_outs', 'suppressions', 'templates', 'template_moves',
        'template_texts', 'policies', 'notifications', 'deliveries', 'attempts', 'inbox', 'inbox_ends', 'digests',
        'outbox', 'provider_reports', 'recent_sends'] LOOP
        place := 'timebell_notify.' || place;
        EXECUTE 'ALTER TABLE ' || place || ' ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY';
        EXECUTE 'CREATE POLICY worker ON ' || place || $sql$ TO {app_role} USING (true) WITH CHECK (true)$sql$;
        EXECUTE 'CREATE POLICY reader ON ' || place || $sql$ FOR SELECT TO {read_role} USING (true)$sql$;
        EXECUTE 'CREATE POLICY api ON ' || place || $sql$ TO {api_role}
            USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')))$sql$;
    END LOOP;
END $$;

-- What is shipped is there for every tenant, and is changed by none.
CREATE POLICY api_shipped ON timebell_notify.templates FOR SELECT TO {api_role}
    USING (tenant = '' AND (SELECT nullif(current_setting('timebell.tenant', true), '')) IS NOT NULL);
CREATE POLICY api_shipped ON timebell_notify.template_texts FOR SELECT TO {api_role}
    USING (tenant = '' AND (SELECT nullif(current_setting('timebell.tenant', true), '')) IS NOT NULL);

-- Whose delivery a report is about is found out by a node, so it comes in without a tenant. The API's role cannot see it
-- again, and may therefore neither name the index that it conflicts on nor have it returned.
CREATE POLICY api_incoming ON timebell_notify.provider_reports FOR INSERT TO {api_role} WITH CHECK (tenant IS NULL);

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell_notify.recipients, timebell_notify.addresses,
    timebell_notify.opt_outs, timebell_notify.suppressions TO {api_role};
GRANT SELECT, INSERT, UPDATE ON timebell_notify.templates, timebell_notify.template_moves, timebell_notify.policies,
    timebell_notify.notifications, timebell_notify.provider_reports TO {api_role};
GRANT SELECT, INSERT ON timebell_notify.template_texts TO {api_role};
GRANT SELECT, UPDATE ON timebell_notify.deliveries, timebell_notify.attempts, timebell_notify.digests TO {api_role};
GRANT SELECT, UPDATE, DELETE ON timebell_notify.inbox TO {api_role};
GRANT SELECT, DELETE ON timebell_notify.outbox, timebell_notify.recent_sends TO {api_role};
GRANT SELECT ON timebell_notify.inbox_ends, timebell_notify.owed, timebell_notify.standing TO {api_role};

GRANT SELECT ON ALL TABLES IN SCHEMA timebell_notify TO {read_role};
