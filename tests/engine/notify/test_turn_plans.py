"""However many wait for a provider, and however much is owed, each job is looked up by its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.engine.support import Owner
from tests.query_plans import nodes, queries_of

NOW = datetime(2027, 3, 1, tzinfo=UTC)
WAITING = 100_000
NOTIFY = queries_of("notify")
# One look-up touches a few pages; reading everybody who waits, or all that is owed, would touch thousands.
PAGES_A_LOOKUP = 10
FILL = f"""
    INSERT INTO timebell.jobs (id, tenant, queue, kind, run_at, due_at, payload)
    SELECT gen_random_uuid(), 'tenant ' || n % 20, 'notify', 'notify.deliver', timestamptz '{NOW}' + n * interval '1 s',
        timestamptz '{NOW}', '{{}}'
    FROM generate_series(1, {WAITING}) AS n;
    INSERT INTO timebell_notify.provider_waits (provider, notification_id, tenant, lane, asked_at)
    SELECT 'mail', id, tenant, 1, run_at FROM timebell.jobs;
    ANALYZE timebell.jobs, timebell_notify.provider_waits;
"""
LOOKUPS: Mapping[str, int] = {"sweep_waits": 100, "read_lines": 20 * (2 + 3)}
GIVEN: Mapping[str, Mapping[str, object]] = {
    "sweep_waits": {"provider": "mail", "after": UUID(int=0), "most": 100},
    "read_lines": {"provider": "mail", "tried": [], "each": 3, "tenants_max": 200, "called_max": 2},
}


@pytest_asyncio.fixture
async def crowded(owner: Owner) -> Owner:
    await owner.connection.execute(FILL)
    return owner


async def plan_of(owner: Owner, name: str) -> Mapping[str, Any]:
    """As the role of the nodes, and undone."""
    query = NOTIFY[name]
    transaction = owner.connection.transaction()
    await transaction.start()
    try:
        await owner.connection.execute("SET LOCAL ROLE timebell")
        text = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query.text}"
        row = await owner.connection.fetchval(text, *query.arguments(GIVEN[name]))
        plan: Mapping[str, Any] = json.loads(row)[0]["Plan"]
        return plan
    finally:
        await transaction.rollback()


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_jobs_are_looked_up_one_by_one(crowded: Owner, mode: str) -> None:
    await crowded.connection.execute(f"SET plan_cache_mode = {mode}")
    for name, lookups in LOOKUPS.items():
        plan = await plan_of(crowded, name)
        of_jobs = [node for node in nodes(plan) if node.get("Relation Name") == "jobs"]
        assert of_jobs, name
        assert all("(id = " in node.get("Index Cond", "") for node in of_jobs), name
        assert {node["Actual Rows"] for node in of_jobs} == {1}, name
        assert not [node for node in nodes(plan) if node["Node Type"] == "Seq Scan"], name
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert touched <= PAGES_A_LOOKUP * lookups, f"{name} touches {touched} pages"
