-- phase: expand
-- Whom to tell and how, what was told, and what came of it.

-- A person or endpoint that can be told things. An erased one keeps its id, so that what points at it stays readable.
CREATE TABLE timebell_notify.recipients (
    tenant             text NOT NULL,
    id                 uuid NOT NULL,
    external_id        text,
    name               text NOT NULL,
    language           text NOT NULL DEFAULT 'en',
    timezone           text NOT NULL DEFAULT 'UTC',
    channel_preference text,
    whatsapp_opt_in    boolean NOT NULL DEFAULT false,
    quiet_hours        jsonb,
    revision           integer NOT NULL DEFAULT 1,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    erased_at          timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX recipients_external ON timebell_notify.recipients (tenant, external_id)
    WHERE external_id IS NOT NULL;

-- One way to reach a recipient. A phone number serves sms and whatsapp. detail holds what the value alone does not
-- say: the keys of a push subscription, the secret of a webhook.
CREATE TABLE timebell_notify.addresses (
    tenant       text NOT NULL,
    id           uuid NOT NULL,
    recipient_id uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('email', 'phone', 'push', 'webhook')),
    value        text NOT NULL,
    detail       jsonb NOT NULL DEFAULT '{}',
    verified_at  timestamptz,
    gone_at      timestamptz,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, recipient_id, kind, value)
);
CREATE INDEX addresses_value ON timebell_notify.addresses (tenant, value);

-- What a recipient does not want: '' stands for every topic or every channel.
CREATE TABLE timebell_notify.opt_outs (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    topic        text NOT NULL DEFAULT '',
    channel      text NOT NULL DEFAULT '',
    source       text NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, recipient_id, topic, channel)
);

-- Addresses that nothing may be sent to; class '' stands for every class of message. Where the recipient was erased, a
-- hash stands for the address.
CREATE TABLE timebell_notify.suppressions (
    tenant     text NOT NULL,
    channel    text NOT NULL,
    address    text NOT NULL,
    class      text NOT NULL DEFAULT '' CHECK (class IN ('', 'transactional', 'marketing')),
    reason     text NOT NULL,
    source     text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, channel, address, class)
);

-- Tenant '' holds what is shipped. A version is the whole set of texts of a key and never changes. No tenant has a
-- version of the same number as one that is shipped, so a number alone says which of them is meant.
CREATE TABLE timebell_notify.templates (
    tenant     text NOT NULL,
    key        text NOT NULL,
    version    integer NOT NULL,
    topic      text NOT NULL,
    class      text NOT NULL CHECK (class IN ('transactional', 'marketing')),
    variables  jsonb NOT NULL,
    is_locked  boolean NOT NULL DEFAULT false,
    is_current boolean NOT NULL DEFAULT true,
    actor      text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, key, version)
);
CREATE UNIQUE INDEX templates_current ON timebell_notify.templates (tenant, key) WHERE is_current;

-- What was planned with another version is told with this one all the same. number counts these decisions, so that
-- what is planned after one keeps its version.
CREATE TABLE timebell_notify.template_moves (
    tenant  text NOT NULL,
    key     text NOT NULL,
    version integer NOT NULL,
    number  integer NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, key)
);

CREATE TABLE timebell_notify.template_texts (
    tenant   text NOT NULL,
    key      text NOT NULL,
    version  integer NOT NULL,
    channel  text NOT NULL,
    language text NOT NULL,
    format   text NOT NULL CHECK (format IN ('text', 'html')),
    subject  text,
    body     text NOT NULL,
    PRIMARY KEY (tenant, key, version, channel, language)
);

-- What a tenant decided about its notifications; without a row the defaults of Policy hold.
CREATE TABLE timebell_notify.policies (
    tenant     text PRIMARY KEY,
    policy     jsonb NOT NULL,
    revision   integer NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL
);

-- One thing to tell one recipient. Its id is that of the job that delivers it. decisions is what was considered at
-- each run, in order, and is what explain() reads. mended is what a person added to the context of the job.
CREATE TABLE timebell_notify.notifications (
    tenant           text NOT NULL,
    id               uuid NOT NULL,
    recipient_id     uuid NOT NULL,
    template         text NOT NULL,
    template_version integer,
    topic            text NOT NULL,
    class            text NOT NULL,
    urgency          text NOT NULL,
    route            jsonb NOT NULL,
    guard            text,
    context          jsonb NOT NULL,
    mended           jsonb,
    is_erased        boolean NOT NULL DEFAULT false,
    subject          text,
    key              text,
    digest           jsonb,
    digest_id        uuid,
    on_quiet         text,
    due_at           timestamptz NOT NULL,
    expires_at       timestamptz,
    state            text NOT NULL,
    reason           text,
    held_until       timestamptz,
    decisions        jsonb NOT NULL DEFAULT '[]',
    correlation_id   text,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);
CREATE INDEX notifications_recipient ON timebell_notify.notifications (tenant, recipient_id, id);
-- What is tried again at once when its recipient changes.
CREATE INDEX notifications_held ON timebell_notify.notifications (tenant, recipient_id, id)
    WHERE held_until IS NOT NULL AND settled_at IS NULL;
-- What a newer version of its template may still reach.
CREATE INDEX notifications_open ON timebell_notify.notifications (tenant, template, id) WHERE settled_at IS NULL;
CREATE INDEX notifications_subject ON timebell_notify.notifications (tenant, subject, id) WHERE subject IS NOT NULL;
-- What waits for a person: "needs attention".
CREATE INDEX notifications_attention ON timebell_notify.notifications (tenant, id)
    WHERE state IN ('failed', 'uncertain') OR reason = 'template_incomplete';
CREATE INDEX notifications_digest ON timebell_notify.notifications (tenant, digest_id) WHERE digest_id IS NOT NULL;
CREATE INDEX notifications_settled ON timebell_notify.notifications (settled_at) WHERE settled_at IS NOT NULL;

-- One notification on one channel through one provider to one address; content is what was rendered.
CREATE TABLE timebell_notify.deliveries (
    tenant          text NOT NULL,
    id              uuid NOT NULL,
    notification_id uuid NOT NULL,
    recipient_id    uuid NOT NULL,
    channel         text NOT NULL,
    provider        text NOT NULL,
    address         text NOT NULL,
    language        text,
    content         jsonb,
    state           text NOT NULL,
    reason          text,
    provider_id     text,
    attempt_count   integer NOT NULL DEFAULT 0,
    failure_count   integer NOT NULL DEFAULT 0,
    sent_at         timestamptz,
    delivered_at    timestamptz,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, notification_id, channel, provider, address)
) WITH (fillfactor = 80);
CREATE INDEX deliveries_recipient ON timebell_notify.deliveries (tenant, recipient_id, id);
-- A report names what a provider carried by our id, and no tenant.
CREATE INDEX deliveries_id ON timebell_notify.deliveries (id) WHERE provider NOT IN ('', 'inbox');
CREATE INDEX deliveries_provider_id ON timebell_notify.deliveries (provider, provider_id)
    WHERE provider_id IS NOT NULL;
CREATE INDEX deliveries_uncertain ON timebell_notify.deliveries (tenant, id) WHERE state = 'uncertain';

-- Written before the provider is called, completed after it: one without an answer may or may not have left.
CREATE TABLE timebell_notify.attempts (
    tenant      text NOT NULL,
    delivery_id uuid NOT NULL,
    number      integer NOT NULL,
    started_at  timestamptz NOT NULL,
    answered_at timestamptz,
    answer      text CHECK (answer IN ('sent', 'rejected', 'unavailable', 'uncertain')),
    reason      text,
    detail      jsonb,
    PRIMARY KEY (tenant, delivery_id, number)
) WITH (fillfactor = 70);

-- What a recipient sees in the application. seq has no gaps and is in the order of commits, for each recipient.
CREATE TABLE timebell_notify.inbox (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    seq          bigint NOT NULL,
    id           uuid NOT NULL,
    type         text NOT NULL,
    title        text NOT NULL,
    description  text NOT NULL,
    status       text NOT NULL DEFAULT 'unseen' CHECK (status IN ('unseen', 'seen', 'dismissed')),
    priority     text NOT NULL DEFAULT 'normal',
    payload      jsonb NOT NULL DEFAULT '{}',
    subject      text,
    due_at       timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant, recipient_id, seq),
    UNIQUE (tenant, id)
);
CREATE INDEX inbox_status ON timebell_notify.inbox (tenant, recipient_id, status, seq);

-- The last seq of each recipient's inbox; locking the row puts the commits of two writers in order.
CREATE TABLE timebell_notify.inbox_ends (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    last_seq     bigint NOT NULL,
    PRIMARY KEY (tenant, recipient_id)
) WITH (fillfactor = 50);

-- Several notifications told as one when the window closes; notification_id is the one that tells them.
CREATE TABLE timebell_notify.digests (
    tenant          text NOT NULL,
    id              uuid NOT NULL,
    recipient_id    uuid NOT NULL,
    key             text NOT NULL,
    closes          text NOT NULL,
    template        text NOT NULL,
    is_sent_empty   boolean NOT NULL,
    notification_id uuid,
    opened_at       timestamptz NOT NULL,
    closes_at       timestamptz NOT NULL,
    closed_at       timestamptz,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, recipient_id, key, closes_at)
);
CREATE INDEX digests_notification ON timebell_notify.digests (tenant, notification_id);

-- What demo mode kept from leaving, as it would have left.
CREATE TABLE timebell_notify.outbox (
    tenant          text NOT NULL,
    id              uuid NOT NULL,
    delivery_id     uuid NOT NULL,
    notification_id uuid NOT NULL,
    recipient_id    uuid NOT NULL,
    channel         text NOT NULL,
    address         text NOT NULL,
    template        text NOT NULL,
    subject         text,
    body            text NOT NULL,
    content         jsonb NOT NULL,
    reason          text NOT NULL,
    captured_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, delivery_id)
);
CREATE INDEX outbox_recipient ON timebell_notify.outbox (tenant, recipient_id, id);
CREATE INDEX outbox_channel ON timebell_notify.outbox (tenant, channel, id);

-- What providers report afterwards, each report once.
CREATE TABLE timebell_notify.provider_reports (
    provider    text NOT NULL,
    report_id   text NOT NULL,
    tenant      text,
    delivery_id uuid,
    provider_id text,
    kind        text NOT NULL,
    occurred_at timestamptz,
    received_at timestamptz NOT NULL,
    applied     text,
    body        jsonb NOT NULL,
    PRIMARY KEY (provider, report_id)
);
CREATE INDEX provider_reports_delivery ON timebell_notify.provider_reports (delivery_id)
    WHERE delivery_id IS NOT NULL;
CREATE INDEX provider_reports_received ON timebell_notify.provider_reports (received_at);

-- When each recipient was last reached on a channel, as many instants as its cap counts.
CREATE TABLE timebell_notify.recent_sends (
    tenant       text NOT NULL,
    recipient_id uuid NOT NULL,
    channel      text NOT NULL,
    sent_ats     timestamptz[] NOT NULL,
    PRIMARY KEY (tenant, recipient_id, channel)
) WITH (fillfactor = 70);

-- One row a provider with a rate limit: the next free start, whoever asks.
CREATE TABLE timebell_notify.provider_rates (
    provider     text PRIMARY KEY,
    next_free_at timestamptz NOT NULL
) WITH (fillfactor = 20);

-- The notifications whose jobs have not ended; a dead one waits for an operator. Nowhere else is it asked what the kernel
-- keeps in its tables.
CREATE VIEW timebell_notify.owed WITH (security_invoker = true) AS
SELECT tenant, id, cursor, false AS is_dead FROM timebell.jobs
UNION ALL SELECT tenant, id, NULL, true FROM timebell.dead_jobs;

-- Notifications for those who look. A job that was cancelled, withdrawn with its agenda, or died, goes without a word to
-- its notification. One that was never settled has a job that is to tell it, its own or that of its digest once this has
-- closed: where there is none it was taken back, and where that is dead it was given up, until an operator revives it.
-- Where it had been told in part, or may have been, that counts, as in withdraw_notifications.sql.
CREATE VIEW timebell_notify.standing WITH (security_invoker = true) AS
SELECT n.tenant, n.id, n.recipient_id, n.template, n.template_version, n.topic, n.class, n.urgency, n.route, n.guard,
    n.context, n.subject, n.key, n.digest, n.digest_id, n.on_quiet, n.due_at, n.expires_at,
    coalesce(e.state, n.state) AS state, coalesce(w.reason, n.reason) AS reason,
    CASE WHEN w.reason IS NULL THEN n.held_until END AS held_until, n.decisions, n.correlation_id, n.created_at,
    n.settled_at
FROM timebell_notify.notifications n
-- Each is asked once, however many columns need the answer.
CROSS JOIN LATERAL (
    SELECT CASE WHEN n.settled_at IS NULL THEN (
        SELECT CASE WHEN bool_and(o.is_dead) IS NULL THEN 'withdrawn' WHEN bool_and(o.is_dead) THEN 'given_up' END
        FROM timebell_notify.owed o
        WHERE o.tenant = n.tenant AND o.id = ANY (ARRAY[n.id, (SELECT g.notification_id FROM timebell_notify.digests g
            WHERE g.tenant = n.tenant AND g.id = n.digest_id AND g.closed_at IS NOT NULL)])) END AS reason
    OFFSET 0
) w
CROSS JOIN LATERAL (
    SELECT CASE WHEN w.reason IS NOT NULL THEN coalesce((SELECT s.state FROM timebell_notify.deliveries d
        CROSS JOIN LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM timebell_notify.attempts t WHERE t.tenant = d.tenant
            AND t.delivery_id = d.id AND t.answer IS NULL) THEN 'uncertain' ELSE d.state END AS state) s
        WHERE d.tenant = n.tenant AND d.notification_id = n.id
            AND s.state IN ('delivered', 'sent', 'suppressed', 'uncertain')
        ORDER BY array_position(ARRAY['delivered', 'sent', 'suppressed', 'uncertain'], s.state) LIMIT 1),
        CASE w.reason WHEN 'withdrawn' THEN 'withdrawn' ELSE 'failed' END) END AS state
    OFFSET 0
) e;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA timebell_notify TO {app_role};
