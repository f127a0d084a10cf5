"""What alerts ask again and again looks at what is wrong, and not at all that is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from tests.engine.support import Owner
from tests.query_plans import nodes, queries_of

NOW = datetime(2027, 3, 1, tzinfo=UTC)
QUERIES = {
    **queries_of("kernel"),
    **queries_of("engine"),
    **queries_of("notify"),
}
# By which index each finds its few rows.
INDEXES = {
    "ask_missed": "occurrences_missed",
    "ask_not_told": "notifications_not_told",
    "ask_parked": "schedules_parked_id",
    "ask_unplanned": "schedules_plan",
    "count_alerts": "alerts_one",
    "list_standing": "alerts_one",
    "list_standing_rules": "alerts_one",
    "prune_alerts": "alerts_age",
    "take_untold": "alerts_untold",
}
ROWS = 3_000
# One in a hundred is as it should not be.
FILL = f"""
    CREATE TEMP TABLE made AS
    SELECT n, n % 100 = 0 AS is_wrong, 'tenant ' || n % 20 AS tenant, gen_random_uuid() AS id,
        gen_random_uuid() AS other, timestamptz '{NOW}' - n * interval '1 s' AS at
    FROM generate_series(1, {ROWS}) n;
    INSERT INTO timebell.schedules (id, tenant, timezone, start_local, steps, planned_until, timezone_version, state,
        plan_at, created_at, updated_at)
    SELECT id, tenant, 'UTC', '2026-01-01', '[]', '{NOW}', 'x', CASE WHEN is_wrong THEN 'parked' ELSE 'active' END,
        CASE WHEN NOT is_wrong THEN '{NOW}'::timestamptz + interval '1 hour' END, at, at FROM made;
    INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision, state,
        timezone_version, created_at)
    SELECT id, '2026-01-01', other, tenant, '2026-01-01', at, 1,
        CASE WHEN is_wrong THEN 'missed' ELSE 'planned' END, 'x', at FROM made;
    INSERT INTO timebell.alerts (id, tenant, app, rule, severity, subject, detail, is_of_engine, is_by_hand, seen_at,
        opened_at, closed_at, told)
    SELECT id, tenant, 'x', 'rule ' || n % 7, 'critical', n::text, 'x', false, false, at, at,
        CASE WHEN NOT is_wrong THEN at + interval '1 s' END, CASE WHEN is_wrong THEN 'nothing' ELSE 'all' END FROM made;
    INSERT INTO timebell_notify.notifications (tenant, id, recipient_id, template, topic, class, urgency, route,
        context, due_at, state, created_at, settled_at)
    SELECT tenant, id, other, 'x', 'x', 'transactional', CASE WHEN n % 2 = 0 THEN 'critical' ELSE 'normal' END, '[]',
        '{{}}', at, CASE WHEN is_wrong THEN 'failed' ELSE 'sent' END, at, at FROM made;
    ANALYZE;
"""
GIVEN: Mapping[str, object] = {
    "now": NOW,
    "seconds": 86_400.0,
    "rows_max": 10_000,
    "limit": 200,
    "after": UUID(int=0),
    "after_tenant": "",
    "after_subject": "",
    "rule": "rule 1",
    "days": 30,
}


async def test_what_is_right_is_not_looked_at(owner: Owner) -> None:
    await owner.connection.execute(FILL)
    found = []
    for name, index in INDEXES.items():
        query = QUERIES[name]
        async with owner.connection.transaction():
            await owner.connection.execute("SET LOCAL ROLE timebell; SET LOCAL seq_page_cost = 1000")
            text = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query.text}"
            answer = await owner.connection.fetchval(text, *(GIVEN[each] for each in query.parameters))
            plan = json.loads(answer)[0]["Plan"]
        used = {node.get("Index Name") for node in nodes(plan)}
        if index not in used:
            found.append(f"{name} goes by {used} and not by {index}")
        for node in nodes(plan):
            rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            if "Relation Name" in node and rows > ROWS / 10:
                found.append(f"{name} looks at {rows} rows of {node['Relation Name']}")
    assert found == []
