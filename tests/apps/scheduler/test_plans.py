"""What each statement costs beside many requests of others: along the indexes, and never through a whole table."""

from __future__ import annotations

from typing import Any

import asyncpg
import orjson
import pytest

from tests.apps.scheduler.support import Desk
from tests.query_plans import nodes
from timebell.apps.scheduler.store import SchedulerStore
from timebell.db.queries import Query

# Tables are thousands of times as large in life, and reading one costs so much more.
READING = {"seq_page_cost": "100"}
LARGE = "requests", "jobs", "schedules", "occurrences"
FILL = """
    INSERT INTO scheduler.requests (tenant, id, number, due_at, recurrence, timezone, start_at, misfire, job_id,
        schedule_id, cancelled_at, created_at, updated_at)
    SELECT 'tenant ' || n % 40, 'request ' || n, timebell.new_id(), CASE WHEN n % 9 > 1 THEN at END,
        CASE WHEN n % 9 = 1 THEN 'FREQ=DAILY' END, CASE WHEN n % 9 = 1 THEN 'UTC' END, CASE WHEN n % 9 = 1 THEN at END,
        CASE WHEN n % 9 = 1 THEN 'skip' END, CASE WHEN n % 9 > 1 THEN job END, CASE WHEN n % 9 = 1 THEN job END,
        CASE WHEN n % 9 = 0 THEN at END, at, at
    FROM (SELECT n, timestamptz '2025-01-01' + n * interval '1 minute' AS at, gen_random_uuid() AS job
        FROM generate_series(1, 20000) n) made;
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT job_id, tenant, 'scheduler', 'scheduler.fire', due_at, due_at, '{}' FROM scheduler.requests
    WHERE job_id IS NOT NULL;
    INSERT INTO timebell.schedules (id, tenant, recurrence, timezone, start_local, steps, planned_until,
        timezone_version, created_at, updated_at)
    SELECT schedule_id, tenant, recurrence, 'UTC', created_at AT TIME ZONE 'UTC', '[]', created_at, '2026a', created_at,
        created_at
    FROM scheduler.requests WHERE schedule_id IS NOT NULL;
    INSERT INTO timebell.occurrences (schedule_id, original_local, id, tenant, local, occurs_at, revision,
        timezone_version, created_at)
    SELECT s.id, s.start_local + d * interval '1 day', timebell.new_id(), s.tenant, s.start_local,
        s.planned_until + d * interval '1 day', 1, '2026a', s.created_at
    FROM timebell.schedules s, generate_series(0, 4) d
"""


async def tables_read_through(owner: Any, query: Query) -> set[str]:
    """The large tables that a statement would read from end to end, whatever its arguments are."""
    await owner.execute(f"PREPARE noted AS {query.text}")
    anything = f"({', '.join(['NULL'] * len(query.parameters))})" if query.parameters else ""
    [plan] = orjson.loads(await owner.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE noted {anything}"))
    await owner.execute("DEALLOCATE noted")
    read = {node["Relation Name"] for node in nodes(plan["Plan"]) if node["Node Type"] == "Seq Scan"}
    return read.intersection(LARGE)


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("role", ["timebell", "timebell_api"])
async def test_no_statement_goes_through_a_whole_table(post: Desk, role: str, is_counted: bool) -> None:
    """Neither before the database has counted the rows nor after it, and on both sides of the wall."""
    owner = await asyncpg.connect(
        post.database.admin_url, server_settings={"plan_cache_mode": "force_generic_plan", **READING}
    )
    try:
        await owner.execute(FILL)
        if is_counted:
            await owner.execute("ANALYZE")
        await owner.execute(f"SET ROLE {role}")
        found = {
            name: tables
            for name, query in SchedulerStore.queries.items()
            if (tables := await tables_read_through(owner, query))
        }
        assert found == {}
        if role == "timebell":
            whole = Query(name="whole", text="SELECT count(payload) FROM scheduler.requests", parameters=())
            assert await tables_read_through(owner, whole) == {"requests"}
    finally:
        await owner.close(timeout=10)
