-- phase: expand
-- In whose name a tenant may send, as the operator approved it: mail addresses and whole domains, senders of text messages,
-- numbers of WhatsApp.

CREATE TABLE timebell_notify.approved_senders (
    tenant      text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('email', 'sms', 'whatsapp')),
    value       text NOT NULL,
    actor       text,
    approved_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, kind, value)
);

ALTER TABLE timebell_notify.approved_senders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON timebell_notify.approved_senders TO {app_role} USING (true) WITH CHECK (true);
CREATE POLICY reader ON timebell_notify.approved_senders FOR SELECT TO {read_role} USING (true);
CREATE POLICY api ON timebell_notify.approved_senders TO {api_role}
    USING (tenant = (SELECT nullif(current_setting('timebell.tenant', true), '')));

GRANT SELECT, INSERT, UPDATE, DELETE ON timebell_notify.approved_senders TO {app_role};
GRANT SELECT, INSERT, DELETE ON timebell_notify.approved_senders TO {api_role};
GRANT SELECT ON timebell_notify.approved_senders TO {read_role};
