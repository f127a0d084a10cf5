"""What is old is found by an index and removed by keys, however much there is that is not old."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest_asyncio

from tests.engine.support import Owner
from tests.query_plans import nodes, queries_of
from timebell.db.queries import Query

NOW = datetime(2027, 3, 1, tzinfo=UTC)
QUERIES = {
    name: query
    for package in ("engine", "notify", "web")
    for name, query in queries_of(package).items()
    if name.startswith("prune_")
}
# By which index each finds what is old, in the order of its age.
INDEXES = {
    "prune_agendas": "agendas_updated",
    "prune_api_keys": "api_keys_ended",
    "prune_breakers": "breakers_age",
    "prune_dead_jobs": "dead_jobs_age",
    "prune_digests": "digests_closing",
    "prune_keys": "job_keys_expiry",
    "prune_notifications": "notifications_settled",
    "prune_occurrences": "occurrences_age",
    "prune_replies": "replies_expiry",
    "prune_reports": "provider_reports_received",
    "prune_withdrawn": "notifications_unsettled",
}
# Of each, one in fifty of them old. Tables are thousands of times as large in life, and reading one costs so much more.
ROWS = 3_000
READING = 1_000
FILL = f"""
    CREATE TEMP TABLE made AS
    SELECT n, 'tenant ' || n % 20 AS tenant, gen_random_uuid() AS id, gen_random_uuid() AS other,
        timestamptz '{NOW}' - CASE WHEN n % 50 = 0 THEN 300 ELSE 3 END * interval '1 day' - n * interval '1 s' AS at
    FROM generate_series(1, {ROWS}) n;
    INSERT INTO timebell_notify.notifications (tenant, id, recipient_id, template, topic, class, urgency, route,
        context, due_at, state, created_at, settled_at, digest_id)
    SELECT tenant, id, other, 'x', 'x', 'transactional', 'normal', '{{}}', '{{}}', at, 'sent', at,
        CASE WHEN n % 10 > 0 THEN at END, CASE WHEN n % 7 = 0 THEN other END FROM made;
    INSERT INTO timebell_notify.deliveries (tenant, id, notification_id, recipient_id, channel, provider, address,
        state, created_at, updated_at) SELECT tenant, other, id, other, 'email', 'mail', 'x', 'sent', at, at FROM made;
    INSERT INTO timebell_notify.attempts (tenant, delivery_id, number, started_at)
    SELECT tenant, other, 1, at FROM made;
    INSERT INTO timebell_notify.inbox (tenant, recipient_id, seq, id, type, title, description, due_at, created_at,
        updated_at) SELECT tenant, other, 1, id, 'x', 'x', 'x', at, at, at FROM made;
    INSERT INTO timebell_notify.outbox (tenant, id, delivery_id, notification_id, recipient_id, channel, address,
        template, body, content, reason, captured_at) SELECT tenant, id, other, id, other, 'email', 'x', 'x',
        'x', '{{}}', 'x', at
        FROM made;
    INSERT INTO timebell_notify.digests (tenant, id, recipient_id, key, closes, template, is_sent_empty, opened_at,
        closes_at, notification_id) SELECT tenant, id, other, 'x', 'x', 'x', false, at, at, other FROM made;
    INSERT INTO timebell_notify.provider_reports (provider, report_id, kind, received_at, applied, body)
    SELECT 'mail', n::text, 'x', at, 'x', '{{}}' FROM made;
    INSERT INTO timebell_web.api_keys (tenant, id, name, prefix, digest, scope, created_at, revoked_at)
    SELECT tenant, id, 'x', 'x', sha256(n::text::bytea), 'read', at, CASE WHEN n % 2 = 0 THEN at END FROM made;
    INSERT INTO timebell_web.replies (tenant, caller, operation, key, fingerprint, status, headers, body, created_at,
        expires_at) SELECT tenant, 'x', 'x', n::text, '', 200, '{{}}', '', at,
        at + CASE WHEN n % 50 > 0 THEN 9 ELSE 0 END * interval '1 day' FROM made;
    INSERT INTO timebell.dead_jobs (id, tenant, queue, kind, due_at, version, attempt, crash_count, priority, urgency,
        payload, created_at, died_at) SELECT id, tenant, 'x', 'x', at, 1, 1, 0, 0, 'normal', '{{}}', at, at FROM made;
    INSERT INTO timebell.breakers (destination, failure_count, open_seconds, open_until, updated_at)
    SELECT 'host ' || n, 5, 30, at + CASE WHEN n % 50 > 0 THEN 9 ELSE 0 END * interval '1 day', at FROM made;
    INSERT INTO timebell.job_keys (tenant, kind, key, job_id, fingerprint, expires_at)
    SELECT tenant, 'x', n::text, id, 'x', at + CASE WHEN n % 50 > 0 THEN 9 ELSE 0 END * interval '1 day' FROM made;
    INSERT INTO timebell.jobs (id, tenant, queue, kind, subject, run_at, due_at, payload)
    SELECT id, tenant, 'x', 'x', 's:' || n, at, at, '{{}}' FROM made;
    INSERT INTO timebell.agendas (tenant, subject, updated_at) SELECT tenant, 's:' || n, at FROM made;
    INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, finished_at)
    SELECT tenant, 's:' || n, 'x', at, 'done', at FROM made;
    INSERT INTO timebell.schedules (id, tenant, timezone, start_local, steps, planned_until, timezone_version,
        created_at, updated_at) SELECT id, tenant, 'UTC', '2026-01-01', '[]', '{NOW}', 'x', at, at FROM made;
    INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision,
        timezone_version, created_at) SELECT id, '2026-01-01', other, tenant, '2026-01-01', at, 1, 'x', at FROM made;
    INSERT INTO timebell.occurrence_overrides (schedule_id, original_local, created_at)
    SELECT id, '2026-01-01', at FROM made;
    ANALYZE;
"""
GIVEN: Mapping[str, object] = {
    "now": NOW,
    "lease_now": NOW,
    "days": 180,
    "limit": 20,
    "after": datetime(1970, 1, 1, tzinfo=UTC),
    "after_id": UUID(int=0),
    "after_tenant": "",
    "after_subject": "",
    "chosen": "TIMEBELL_API_KEY",
}


@pytest_asyncio.fixture
async def crowded(owner: Owner) -> Owner:
    await owner.connection.execute(FILL)
    return owner


async def explained(owner: Owner, query: Query) -> dict[str, Any]:
    """As the nodes' role, and undone."""
    connection = owner.connection
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute("SET LOCAL ROLE timebell")
        await connection.execute(f"SET LOCAL seq_page_cost = {READING}")
        text = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query.text}"
        plan: dict[str, Any] = json.loads(
            await connection.fetchval(text, *(GIVEN[name] for name in query.parameters))
        )[0]["Plan"]
        return plan
    finally:
        await transaction.rollback()


async def test_nothing_is_read_from_end_to_end(crowded: Owner) -> None:
    found = []
    for name, query in sorted(QUERIES.items()):
        plan = await explained(crowded, query)
        if not any(node.get("Index Name") == INDEXES[name] for node in nodes(plan)):
            found.append(f"{name} does not go by {INDEXES[name]}")
        for node in nodes(plan):
            if node["Node Type"] == "Seq Scan":
                found.append(f"{name} reads {node['Relation Name']} from end to end")
            rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            if "Relation Name" in node and rows > ROWS / 5:
                found.append(f"{name} looks at {rows} rows of {node['Relation Name']}")
    assert found == []
    assert INDEXES.keys() == QUERIES.keys()
